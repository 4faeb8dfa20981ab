# SPDX-License-Identifier: Apache-2.0
"""The names of the formats that traces have; what each of them does stands in `busq.trace.formats`."""

FORMATS = ("busq", "epfl", "shiviz", "otlp", "jaeger", "zipkin", "jepsen", "ndjson", "csv", "text", "machines")
