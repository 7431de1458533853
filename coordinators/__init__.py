"""Group and transaction coordinators, on the floor of the controller. Empty until groups exist."""
