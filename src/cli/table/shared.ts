// Flags and arguments of several commands.

import { parseObjectName } from '../cluster-flags.ts';
import { jobIds } from '../completion/ids.ts';
import { value, word } from '../flags.ts';

/** Jobs by id or name. */
export const jobs = { name: 'job', summary: 'Id (1 is 000001) or name', many: true, propose: jobIds } as const;

export const jobName = word('The job of exactly this name, even if it looks like an id', 'name', 'j');

/** The namespace and context of a job of a cluster, if they are not the kubeconfig's. */
export const place = {
  namespace: value('A job of this namespace of a Kubernetes cluster', 'name', parseObjectName, 'n'),
  context: word('A job of the cluster of this context of the kubeconfig', 'context'),
};

/** Exit codes of a command that waits for jobs. */
export const verdict = {
  0: 'every job succeeded',
  1: 'one failed, was stopped or was cancelled',
  130: 'you left; the job goes on',
};
