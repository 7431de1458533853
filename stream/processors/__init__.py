"""The processors behind the operators of the DSL. A supplier has Java's class name and its parameters in
snake_case.

Functions of users take what Java's internal interfaces take: `predicate(key, value)`, `initializer()`,
`aggregator(key, value, aggregate)`, `reducer(aggregate, value)`, `joiner(key, left, right)`. Where `takes` is
a parameter, it names other arguments.
"""
