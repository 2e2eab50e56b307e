// The flags of `logs` where none is given, for those who show a log by other words.

import type { LogsFlags } from '../commands/logs.ts';

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
