"""`headrace balance` and `headrace node remove`: what moves where, and the steps that move it."""
