# The pipeline with Spark: a job, a master or a worker, as the command says.  Much larger than the broker's image.
ARG BASE=python:3.11-slim

FROM ${BASE}
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends default-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# What it needs first: that changes seldom, and the layer is kept.
COPY pyproject.toml ./
COPY .ci/constraints.txt ./
RUN python3 -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*p['dependencies'], *p['optional-dependencies']['spark'], sep='\n')" > requirements.txt \
 && python3 -m pip install --no-cache-dir --disable-pip-version-check -c constraints.txt -r requirements.txt
COPY README.md ./
COPY broker_lite ./broker_lite
RUN python3 -m pip install --no-cache-dir --disable-pip-version-check --no-deps . \
 && ln -s "$(python3 -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark
# Spark asks the system for the name of its user, so there is one.
RUN useradd --uid 10092 --home-dir /work --create-home spark \
 && mkdir /tables && chown 10092:10092 /tables
USER 10092:10092
WORKDIR /work
# Spark's scripts look for their home here; HOME because Java wants a folder that it may write to.
ENV SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=python3 \
    HOME=/work \
    PYTHONUNBUFFERED=1
ENTRYPOINT ["broker-lite", "pipeline"]
CMD ["--help"]
