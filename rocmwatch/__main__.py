"""`python -m rocmwatch`."""

from rocmwatch.commands import main

main()
