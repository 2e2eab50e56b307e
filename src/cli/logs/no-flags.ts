// The flags of `logs` where none is given.

import type { LogsFlags } from '../table/flags.ts';

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
