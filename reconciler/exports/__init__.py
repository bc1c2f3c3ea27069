"""What finance takes away: orders, transfers and exceptions as rows. Reads storage, writes files."""
