// The parts that a change of a TPU uses.

import type { Duration } from '../../../core/time.ts';
import type { Site } from '../../../lab/site.ts';
import type { WorkerAnswer } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import type { TpuApi } from '../api.ts';
import type { SharedMaker } from '../request.ts';
import type { NodeLook } from './look.ts';

export interface ChangeParts {
  readonly apiFor: (project: string) => TpuApi;
  readonly look: (tpu: LabTpu) => Promise<NodeLook>;
  readonly project: string | null;
  readonly site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>;
  readonly sshKeys: () => Promise<string>;
  /** The installation and the person that the labels and the metadata of a new TPU name. */
  readonly maker: () => Promise<SharedMaker>;
  readonly lookEvery: Duration;
  /** Runs a short script on all workers that there are now. */
  readonly onWorkers: (tpu: LabTpu, script: string, signal: AbortSignal) => Promise<readonly WorkerAnswer[]>;
  /** The machines of that one have gone for good. */
  readonly forget: (name: string, createTime: string | undefined) => void;
}
