// A job that an argument names, wherever it lives: in the store, in a cluster, or only in the archive of a cluster.
// Commands call its methods and do not ask which of the three it is.

import type { CommandOptions, MetricPointView, MetricsQuery, MetricsView } from '../../app/client.ts';
import type { CopyEnd, CopyRequest, Session, SessionRequest } from '../../app/worker-access.ts';
import type { ClusterAttachRequest, ClusterSession } from '../../app/cluster/cluster.ts';
import type { ClusterVerb } from '../../app/cluster/commands.ts';
import type { DiffSide } from '../../app/diff.ts';
import type { ForwardTarget } from '../hosts/forwarded-ports.ts';
import type { Output } from '../outputs.ts';
import type { JobReport } from '../report/job-report.ts';
import type { ExecFlags, LogsFlags, PortForwardFlags } from '../table/flags.ts';

export interface ContextFlags {
  readonly namespace?: string | undefined;
  readonly context?: string | undefined;
}

export interface JobFlags extends ContextFlags {
  readonly jobName?: string | undefined;
}

/** A job in the usage ledger. */
export interface UsageJob {
  /** Its id; in a cluster its uid. */
  readonly key: string;
  readonly name: string;
  /** In sentences. */
  readonly title: string;
}

/** Methods that resolve with a number print their result and resolve with the exit code. */
export interface JobHandle {
  /** The id of a stored job, otherwise the name. */
  readonly id: string;
  readonly isStored: boolean;
  show(): Promise<JobText>;
  why(isExplained: boolean): Promise<JobText>;
  history(isTimeline: boolean): Promise<JobText>;
  /** For `report`. Throws JobmanError for an absent job. */
  report(): Promise<JobReport>;
  /** Throws JobmanError for an absent job. */
  usageJob(): Promise<UsageJob>;
  /** For `diff`; of the newest attempt without a number. Throws JobmanError for an absent job or attempt. */
  diffSide(attempt: number | null): Promise<DiffSide>;
  logs(flags: LogsFlags): Promise<number>;
  metrics(query: MetricsQuery): Promise<MetricsView>;
  /** Every point, without a reduction. */
  metricPoints(query: MetricsQuery): AsyncIterable<MetricPointView>;
  /** Follows the last lines on a screen that `q` leaves. True if the job has finished before `leave`. */
  followLast(lines: number, leave: AbortSignal): Promise<boolean>;
  perform(verb: ClusterVerb, options: CommandOptions): Promise<number>;
  delete(isForced: boolean): Promise<number>;
  clean(): Promise<number>;
  /** Null if the signal came first. Absent for a stored job: one loop waits for all of them. */
  wait?(signal: AbortSignal): Promise<number | null>;
  /** The caller closes them. */
  machines(use: 'own' | 'shared', flags: MachineFlags): Promise<Machines>;
  portTarget(flags: PortForwardFlags): Promise<ForwardTarget>;
  ssh(worker: number, command: readonly string[]): Promise<number>;
}

export interface JobText {
  readonly objects: () => readonly Output[];
  readonly lines: () => readonly string[];
  /** 0 unless the text may be old. */
  readonly exitCode?: number;
}

type MachineFlags = Pick<ExecFlags, 'workers' | 'pod' | 'container' | 'inContainer' | 'tty'>;

/** The workers or running pods that the flags select, by their numbers. */
export interface Machines {
  readonly noun: 'worker' | 'pod';
  readonly selected: readonly number[];
  /** The count of all workers of the job, or of the selected pods. */
  readonly count: number;
  /** Names of the pods. */
  readonly names?: ReadonlyMap<number, string>;
  start(machine: number, request: SessionRequest): Session;
  /** Only a pod has a terminal to attach; `jobman ssh` is the one of a worker. */
  readonly attach?: (
    machine: number,
    request: ClusterAttachRequest & Pick<SessionRequest, 'program'>,
  ) => ClusterSession;
  put(machine: number, request: CopyRequest): Promise<CopyEnd>;
  get(machine: number, request: CopyRequest): Promise<CopyEnd>;
  close(): void;
}
