// The metrics of a server as text for Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats/).

import { meteredMetrics, type Metric, type ReadableMeter, type Series } from '../app/meter.ts';
import type { LeaseState, Store } from '../app/ports.ts';
import { phaseOf, phaseSince, phases, isFinishedPhase } from '../core/decide/phase.ts';
import { second, type Instant } from '../core/model/time.ts';

export interface MetricsParts {
  readonly meter: ReadableMeter;
  readonly store: () => Promise<Pick<Store, 'list' | 'lease'>>;
  readonly now: () => Instant;
  readonly version: string;
  readonly resourceUsage: () => {
    readonly residentBytes: number;
    readonly heapBytes: number;
    readonly cpuSeconds: number;
  };
}

export const metricsType = 'text/plain; version=0.0.4; charset=utf-8';

/** `streams`: the number of open streams by route. Rejects with StoreError if the database cannot be read. */
export function createMetrics({ meter, store, now, version, resourceUsage }: MetricsParts) {
  const startedAt = now();
  let stopLag: (() => void) | undefined;
  return {
    async text(streams: ReadonlyMap<string, number>): Promise<string> {
      stopLag ??= measureLag(meter);
      const began = performance.now();
      const opened = await store();
      const lease = await opened.lease(now());
      const readMs = performance.now() - began;
      const { jobs } = await opened.list({ maxFinished: 0 });
      const { residentBytes, heapBytes, cpuSeconds } = resourceUsage();
      const at = now();
      const of = jobs.map((job) => ({ phase: phaseOf(job), since: phaseSince(job) }));
      const active = phases.filter((phase) => !isFinishedPhase(phase));
      const queued = of.filter(({ phase }) => phase === 'queued').map(({ since }) => (at - since) / second);
      return [
        ...gauge(
          'jobman_jobs',
          'Unfinished jobs in the database by phase.',
          active.map((phase) => [{ phase }, of.filter((job) => job.phase === phase).length]),
        ),
        ...gauge(
          'jobman_queue_age_seconds',
          'Time for which the longest-waiting queued job has waited; 0 without one.',
          [[{}, Math.max(0, ...queued)]],
        ),
        ...gauge(
          'jobman_lease_held',
          '1 while any controller holds the lease of the database, so that jobs are managed.',
          [[{}, isHeld(lease, at) ? 1 : 0]],
        ),
        ...gauge('jobman_database_read_seconds', 'Duration of a small read of the database, made for this request.', [
          [{}, readMs / second],
        ]),
        ...gauge(
          'jobman_event_streams',
          'Open streams of events, such as changes and followed metrics.',
          [...streams].map(([route, count]) => [{ route }, count]),
        ),
        ...Object.entries(meteredMetrics).flatMap(([name, metric]) =>
          formatMetric(name, metric, meter.series(name as keyof typeof meteredMetrics)),
        ),
        ...gauge('jobman_build_info', 'The version of the server.', [[{ version }, 1]]),
        ...gauge('process_resident_memory_bytes', 'Memory of the server.', [[{}, residentBytes]]),
        ...gauge('nodejs_heap_size_used_bytes', 'Memory of the objects of the server.', [[{}, heapBytes]]),
        ...gauge('process_start_time_seconds', 'Time of the start, since 1970.', [[{}, startedAt / second]]),
        ...formatMetric('process_cpu_seconds_total', { help: 'Processor time of the server.', labels: [] }, [
          { labels: {}, count: cpuSeconds, sum: 0, buckets: [] },
        ]),
        '',
      ].join('\n');
    },
    close: () => stopLag?.(),
  };
}

function isHeld(lease: LeaseState | undefined, now: Instant): boolean {
  return lease !== undefined && lease.expiresAt > now;
}

/** Starts with the first request for metrics, because the timer wakes an idle server every second. */
function measureLag(meter: ReadableMeter): () => void {
  let due = performance.now() + second;
  const timer = setInterval(() => {
    const now = performance.now();
    meter.time('jobman_event_loop_lag_seconds', now - due, {});
    due = now + second;
  }, second).unref();
  return () => clearInterval(timer);
}

type Labels = Readonly<Record<string, string>>;

function gauge(name: string, help: string, values: readonly (readonly [Labels, number])[]): readonly string[] {
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} gauge`,
    ...values.map(([labels, value]) => `${name}${formatLabels(labels)} ${value}`),
  ];
}

function formatMetric(name: string, { help, buckets }: Metric, series: Iterable<Series>): readonly string[] {
  const head = [`# HELP ${name} ${help}`, `# TYPE ${name} ${buckets === undefined ? 'counter' : 'histogram'}`];
  if (buckets === undefined)
    return [...head, ...[...series].map(({ labels, count }) => `${name}${formatLabels(labels)} ${count}`)];
  return [
    ...head,
    ...[...series].flatMap((one) => [
      ...[...buckets, '+Inf'].map(
        (le, index) =>
          `${name}_bucket${formatLabels({ ...one.labels, le: String(le) })} ${one.buckets[index] ?? one.count}`,
      ),
      `${name}_sum${formatLabels(one.labels)} ${one.sum}`,
      `${name}_count${formatLabels(one.labels)} ${one.count}`,
    ]),
  ];
}

/** No value needs escapes: all come from fixed lists, or are numbers. */
function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}
