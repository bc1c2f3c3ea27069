"""The nouns: policy, order, claim, transfer, status. Pure; imports `schemas` alone."""
