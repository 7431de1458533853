"""Cell classes: each measures one scenario on one system, through a `Harness`. Pure."""
