"""The commands a person types, by what they are about; `fabfile.py` names them for fab."""
