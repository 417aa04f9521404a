"""The kernels of views: pure functions from changes and old state to changes of state and changes out."""
