"""The page for people who look after the system: made by every dispatcher, from the store."""
