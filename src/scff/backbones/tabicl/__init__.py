"""TabICL v1, v1.1 and v2, the embedded nano, and any checkpoint in TabICL's layout."""
