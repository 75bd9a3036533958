"""Config files of the project and of the user, which the commands read."""
