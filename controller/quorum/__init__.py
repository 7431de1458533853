"""The controller quorum: Raft, the replicated metadata log and its snapshots."""
