#!/usr/bin/python3
"""scikit-learn's side of `make bench B=glm`: glm_peer.py FILE LAMBDA.

Prints the objective (mean logistic loss + LAMBDA/2 |w|^2, bias left out) that
SAGA of LogisticRegression ends at, with its own tolerance, and the CPU seconds
and passes that it takes. Prints nothing where there is no scikit-learn.
"""
import os
import sys
import time
import warnings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

try:
    import numpy
    from sklearn.datasets import load_svmlight_file
    from sklearn.linear_model import LogisticRegression
except ImportError:
    sys.exit(0)


def main():
    warnings.simplefilter("ignore")
    x, y = load_svmlight_file(sys.argv[1], zero_based=True)
    lam = float(sys.argv[2])
    y = numpy.where(y > 0, 1.0, -1.0)
    model = LogisticRegression(C=1 / (lam * len(y)), solver="saga",
                               max_iter=1000, random_state=1)
    begun = time.process_time()
    model.fit(x, y)
    cpu = time.process_time() - begun
    w = model.coef_[0]
    z = y * (x @ w + model.intercept_[0])
    objective = numpy.logaddexp(0, -z).mean() + lam / 2 * w @ w
    print(repr(float(objective)), cpu, model.n_iter_[0])


if __name__ == "__main__":
    main()
