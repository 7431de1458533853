"""What the processors of users do, by the name that a case gives; java/Behaviour.java has the same."""
