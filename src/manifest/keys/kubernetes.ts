// Keys of `kubernetes`: the job in a cluster.

import { second } from '../../core/time.ts';
import { duration, durationOrNone, line, listOf, mapOf, quoted, section, text, truth, whole } from '../kinds.ts';
import { refuse, type Key, type Kind } from '../../schema/kinds.ts';
import {
  amountPattern,
  readGpus,
  readObjectName,
  readSecret,
  readToleration,
  readVolume,
  type Reading,
} from '../kubernetes-words.ts';

/** A text that the command line takes in the same form. */
function reading<T>(words: string, read: (written: string) => Reading<T>): Kind<T> {
  const inner = line({ words });
  return {
    ...inner,
    read(tree, path, report) {
      const written = inner.read(tree, path, report);
      if (written === undefined) return undefined;
      const found = read(written);
      return 'value' in found
        ? found.value
        : refuse(tree, path, report, `${quoted(written)} ${found.wrong}`, found.meant);
    },
  };
}

const objectName = (words: string): Kind<string> => reading(words, readObjectName);

/** The name of a resource is checked where its amount is (app/cluster/flavor.ts). */
const amounts = mapOf({ pattern: /^\S+$/, rule: 'is no resource' });

const resources = section({
  requests: {
    kind: amounts,
    about: 'What one pod asks for.',
    isRequired: true,
    otherwise: 'must be given with resources',
    example: '{cpu: 500m, memory: 1G}',
  },
  limits: {
    kind: amounts,
    about: 'What it may use at most. GPUs and the like get their request as their limit.',
    example: '{memory: 2G}',
  },
});

export const kubernetes = {
  about:
    'Runs the job in a Kubernetes cluster, as `jobman submit` does. An empty section (`kubernetes: {}`) is enough.',
  kind: section({
    image: {
      kind: line({ words: 'image' }),
      about: 'The image, behind the prefix of the settings.',
      otherwise: 'job.defaultImage of the settings',
      example: 'alpine:3',
    },
    flavor: {
      kind: line(),
      about: "A resources flavor: its name, a file or its JSON. `jobman resources-flavors` shows the settings' own.",
      otherwise: 'job.resources.default of the settings',
      example: 'no-gpu',
      aliases: ['resources_flavor'],
    },
    resources: {
      kind: resources,
      about: 'Resources without a name, in place of a flavor.',
      otherwise: 'those of the flavor',
      example: '{requests: {cpu: 2, memory: 4G}}',
    },
    gpus: {
      kind: reading('n[:model]', readGpus),
      about: 'GPUs of each pod: how many, and if it matters the model as the nodes are labelled, or the resource.',
      otherwise: 'those of the flavor',
      example: '2:NVIDIA-A100-SXM4-80GB',
    },
    namespace: {
      kind: objectName('namespace'),
      about: 'The namespace.',
      otherwise: "that of the kubeconfig's context",
      example: 'vision',
    },
    context: {
      kind: line({ words: 'context' }),
      about: 'The context of the kubeconfig.',
      otherwise: "the kubeconfig's own choice",
      example: 'lab',
    },
    annotations: {
      kind: mapOf({ pattern: /^\S+$/, rule: 'is no key of an annotation' }),
      about: 'Annotations of the Job, over those of the settings.',
      example: '{team: vision}',
    },
    command: {
      kind: listOf(text()),
      about: "Words that replace the image's entry point; `command.run` is a script in place of it.",
      otherwise: "the image's own",
      example: '[python3, train.py]',
    },
    args: {
      kind: listOf(text()),
      about: 'Words behind the entry point.',
      otherwise: "the image's own",
      example: '[ls, -al, /]',
    },
    secrets: {
      kind: listOf(reading('NAME:KEY=VARIABLE', readSecret), 'list of NAME:KEY=VARIABLE'),
      about:
        'Secrets of the cluster by reference: a key of one as a variable. `NAME:KEY` is the variable KEY, `NAME` all keys under their own names.',
      example: '[wandb:api-key=WANDB_API_KEY]',
    },
    volumes: {
      kind: listOf(reading('claim:path[:ro]', readVolume), 'list of claim:path[:ro]'),
      about: 'PersistentVolumeClaims and where they appear.',
      example: '[datasets:/data:ro]',
    },
    shm: {
      kind: line({ words: 'amount', pattern: amountPattern, rule: 'is no amount; write 8G or 512Mi' }),
      about: 'The size of /dev/shm, which loaders of data share; it counts as memory of the pod.',
      otherwise: "the node's own, often 64M",
      example: '8G',
    },
    service_account: {
      kind: objectName('name'),
      about: 'The ServiceAccount that the pods act as.',
      otherwise: 'that of the namespace',
      example: 'trainer',
    },
    labels: {
      kind: mapOf({ pattern: /^\S+$/, rule: 'is not a label key' }),
      about: 'Labels of the Job and of its pods.',
      example: '{team: vision}',
    },
    node_selector: {
      kind: mapOf({ pattern: /^\S+$/, rule: 'is not a label key' }),
      about: 'Labels that the node must have.',
      example: '{disk: ssd}',
    },
    tolerations: {
      kind: listOf(reading('KEY[=VALUE][:EFFECT]', readToleration), 'list of KEY[=VALUE][:EFFECT]'),
      about: 'Taints that the pods tolerate: `gpu`, `gpu=a100` or `gpu=a100:NoSchedule`.',
      otherwise: 'one for each extended resource',
      example: '[gpu=a100:NoSchedule]',
    },
    priority_class: {
      kind: objectName('name'),
      about: 'The PriorityClass of the pods.',
      otherwise: 'job.priorityClassName of the settings',
      example: 'high',
    },
    image_pull_secrets: {
      kind: listOf(objectName('secret'), 'list of secrets'),
      about: 'Secrets with the login of a registry.',
      example: '[registry]',
    },
    parallelism: {
      kind: whole(1, 100_000),
      about: 'How many pods run at once. Above 1 each has a number, JOB_COMPLETION_INDEX.',
      otherwise: '1',
      example: '4',
    },
    completions: {
      kind: whole(1, 100_000),
      about: 'How many pods have to succeed. Above 1 each has a number, JOB_COMPLETION_INDEX.',
      otherwise: 'parallelism',
      example: '16',
    },
    backoff_limit: {
      kind: whole(0, 1_000_000),
      about: 'How many failed pods are replaced before the job has failed.',
      otherwise: '0',
      example: '3',
    },
    timeout: {
      kind: duration(second),
      about: 'The longest run, all pods together; then Kubernetes ends the job as failed.',
      otherwise: 'job.max_runtime, else no limit',
      example: '12h',
    },
    ttl: {
      kind: durationOrNone(),
      about: 'How long after its end Kubernetes removes the job with its pods; `none`: never.',
      otherwise: 'job.ttl of the settings, 7d',
      example: '1d',
    },
    suspend: {
      kind: truth(),
      about: 'Create it without starting it; `jobman start` does.',
      otherwise: 'false',
      example: 'true',
    },
    queue: {
      kind: objectName('queue'),
      about: "The queue of Kueue that it waits in; this is Kueue's label.",
      example: 'vision',
    },
  }),
} satisfies Key<unknown>;
