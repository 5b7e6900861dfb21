"""What came out and what it says: records, their store, and scaling computed from them."""
