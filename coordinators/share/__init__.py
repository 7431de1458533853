"""Share groups: records are delivered to members one by one, and acknowledged one by one."""
