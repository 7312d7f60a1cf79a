"""What fills the context of a model: tokens, usage, compaction."""
