"""Engine instances in processes of their own."""
