// The workers or pods of a job, for the commands that run programs on them and copy files.

import type { ClusterAttachRequest } from '../../app/cluster/cluster.ts';
import type { CopyEnd, CopyRequest, Session, SessionRequest } from '../../app/worker-access.ts';
import type { ExecFlags } from '../table/flags.ts';

export type MachineFlags = Pick<ExecFlags, 'workers' | 'pod' | 'container' | 'inContainer' | 'tty'>;

/** The workers or running pods that the flags select, by their numbers. */
export interface Machines {
  readonly noun: 'worker' | 'pod';
  readonly selected: readonly number[];
  /** The count of all workers of the job, or of the selected pods. */
  readonly count: number;
  /** Names of the pods. */
  readonly names?: ReadonlyMap<number, string>;
  start(machine: number, request: SessionRequest): Session;
  /** Runs a program with a terminal. */
  readonly attach: (machine: number, request: ClusterAttachRequest & Pick<SessionRequest, 'program'>) => Session;
  put(machine: number, request: CopyRequest): Promise<CopyEnd>;
  get(machine: number, request: CopyRequest): Promise<CopyEnd>;
  close(): void;
}
