#!/usr/bin/env bash
# Brings the jars of the Kafka broker that the tests run into .parts/kafka/libs, once per pom.xml.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
parts="$here/../../../.parts/kafka"
if [ -f "$parts/pom.xml" ] && cmp -s "$here/pom.xml" "$parts/pom.xml"; then
  exit 0
fi
if ! command -v mvn >/dev/null || ! command -v java >/dev/null; then
  echo "kafka: needs mvn and java; install maven and default-jdk-headless (make system)" >&2
  exit 1
fi
rm -rf "$parts"
mkdir -p "$parts"
echo "kafka: fetching the broker's jars through Maven" >&2
# Three tries: a registry that times out once is no reason to fail.
for try in 1 2 3; do
  if mvn -B -q -ntp -Dstyle.color=never -f "$here/pom.xml" dependency:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$parts/libs"; then
    cp "$here/pom.xml" "$parts/pom.xml"
    exit 0
  fi
  echo "kafka: try $try failed" >&2
done
exit 1
