"""Files for deployments, made from the code that they describe."""
