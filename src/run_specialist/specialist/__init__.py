"""The specialist's file: found, read leniently, checked."""
