// Meter: counts what happens in this process, for monitoring. The label of a metric has a few fixed values: no ids,
// names or texts of users.

import type { Duration } from '../core/model/time.ts';

/** Upper bounds in seconds: from a local database to a slow cloud. */
const latencies = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** From a local restart to capacity that is awaited for days. */
const recoveries = [1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400];

/** The metrics of events, counted where they happen. `server/metrics.ts` adds the metrics of the current state. */
export const meteredMetrics = {
  jobman_passes_total: {
    help: 'Passes of the controller by result; the controller retries a failed pass.',
    labels: ['result'],
    initial: [{ result: 'committed' }, { result: 'unchanged' }, { result: 'failed' }],
  },
  jobman_pass_seconds: {
    help: 'Duration of a pass: load, observe, decide, commit.',
    labels: [],
    buckets: latencies,
  },
  jobman_observation_seconds: {
    help: 'Duration of the observation of one job: its capacity and its workers.',
    labels: ['backend'],
    buckets: latencies,
  },
  jobman_unknown_observations_total: {
    help: 'Observations in which the cloud (capacity) or a worker gave no answer.',
    labels: ['backend', 'of'],
  },
  jobman_commit_seconds: {
    help: 'Duration of the transaction that stores a decision.',
    labels: [],
    buckets: latencies,
  },
  jobman_actions_total: { help: 'Actions of the controller by outcome.', labels: ['action', 'outcome'] },
  jobman_recovery_seconds: {
    help: 'Time from the end of an attempt until a recovery rule runs the command again.',
    labels: ['reason'],
    buckets: recoveries,
  },
  jobman_jobs_finished_total: { help: 'Jobs that finished, by verdict.', labels: ['verdict'] },
  jobman_http_requests_total: { help: 'Requests with a response.', labels: ['method', 'route', 'status'] },
  jobman_http_request_seconds: {
    help: 'Time until the response to a request begins.',
    labels: ['method', 'route'],
    buckets: latencies,
  },
  jobman_event_loop_lag_seconds: {
    help: 'Delay of a timer of one second; measured from the first request for metrics on.',
    labels: [],
    buckets: latencies,
  },
} as const satisfies Readonly<Record<string, Metric>>;

export interface Metric {
  readonly help: string;
  readonly labels: readonly string[];
  /** The upper bounds of a histogram; a metric without them is a counter. */
  readonly buckets?: readonly number[];
  /** Begin at 0, because Prometheus counts no increase up to the first value that it sees. */
  readonly initial?: readonly Readonly<Record<string, string>>[];
}

type Metrics = typeof meteredMetrics;
type Name = keyof Metrics;
type HistogramName = { [N in Name]: Metrics[N] extends { buckets: unknown } ? N : never }[Name];
type LabelsOf<N extends Name> = Readonly<Record<Metrics[N]['labels'][number], string>>;

/** Both methods are cheap and never throw. */
export interface Meter {
  count<N extends Exclude<Name, HistogramName>>(name: N, labels: LabelsOf<N>): void;
  /** A negative duration, of a clock that was set back, counts as 0. */
  time<N extends HistogramName>(name: N, duration: Duration, labels: LabelsOf<N>): void;
}

/** The values of one metric with the same labels. */
export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** A counter's value, or the number of values of a histogram. */
  count: number;
  /** In seconds. */
  sum: number;
  /** The number of values up to each upper bound. */
  readonly buckets: number[];
}

export interface ReadableMeter extends Meter {
  /** Of each combination of labels that has a value, in the order of the first values. */
  series(name: Name): Iterable<Series>;
}

export function createMeter(): ReadableMeter {
  const byName = new Map<Name, Map<string, Series>>();
  function seriesOf(name: Name, labels: Readonly<Record<string, string>>): Series {
    const ofName = byName.get(name) ?? new Map<string, Series>();
    const { labels: names, buckets = [] }: Metric = meteredMetrics[name];
    const key = names.map((label) => labels[label]).join('\n');
    const found = ofName.get(key) ?? { labels, count: 0, sum: 0, buckets: buckets.map(() => 0) };
    byName.set(name, ofName.set(key, found));
    return found;
  }
  for (const [name, { initial = [] }] of Object.entries<Metric>(meteredMetrics))
    for (const labels of initial) seriesOf(name as Name, labels);
  return {
    count: (name, labels) => void (seriesOf(name, labels).count += 1),
    time(name, duration, labels) {
      const found = seriesOf(name, labels);
      const seconds = Math.max(0, duration) / 1000;
      found.count += 1;
      found.sum += seconds;
      meteredMetrics[name].buckets.forEach((bound, index) => {
        if (seconds <= bound) found.buckets[index] = (found.buckets[index] ?? 0) + 1;
      });
    },
    series: (name) => byName.get(name)?.values() ?? [],
  };
}
