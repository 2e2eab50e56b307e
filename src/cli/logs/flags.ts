// The flags of `logs`.

import type { WorkerId } from '../../core/spec.ts';
import type { Duration } from '../../core/time.ts';

export interface LogsFlags {
  readonly follow: boolean | undefined;
  readonly worker: WorkerId | undefined;
  readonly step: string | undefined;
  readonly attempt: number | undefined;
  readonly tail: number | undefined;
  readonly grep: RegExp | undefined;
  readonly noFold: boolean | undefined;
  readonly firstError: boolean | undefined;
  readonly raw: boolean | undefined;
  readonly jobName: string | undefined;
  readonly container: string | undefined;
  readonly allContainers: boolean | undefined;
  readonly previous: boolean | undefined;
  readonly allPods: boolean | undefined;
  readonly since: Duration | undefined;
  readonly namespace: string | undefined;
  readonly context: string | undefined;
}

/** For a log that another command shows. */
export const noFlags: LogsFlags = {
  follow: undefined,
  worker: undefined,
  step: undefined,
  attempt: undefined,
  tail: undefined,
  grep: undefined,
  noFold: undefined,
  firstError: undefined,
  raw: undefined,
  jobName: undefined,
  container: undefined,
  previous: undefined,
  allPods: undefined,
  allContainers: undefined,
  since: undefined,
  namespace: undefined,
  context: undefined,
};
