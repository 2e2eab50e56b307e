import { second } from '../../core/model/time.ts';
import { duration, durationOrNone, line, listOf, mapOf, quoteValue, section, text, bool, int } from '../kinds.ts';
import { reportProblem, type Key, type Kind } from '../../schema/kinds.ts';
import {
  quantityPattern,
  readGpus,
  readObjectName,
  readSecret,
  readToleration,
  readVolume,
  type ParseResult,
} from '../kubernetes-values.ts';

/** A text that has the same form on the command line. */
function parsedLine<T>(description: string, read: (written: string) => ParseResult<T>): Kind<T> {
  const inner = line({ description });
  return {
    ...inner,
    read(tree, path, report) {
      const written = inner.read(tree, path, report);
      if (written === undefined) return undefined;
      const found = read(written);
      return 'value' in found
        ? found.value
        : reportProblem(tree, path, report, `${quoteValue(written)} ${found.problem}`, found.suggestion);
    },
  };
}

const objectName = (description: string): Kind<string> => parsedLine(description, readObjectName);

/** app/cluster/flavor.ts checks the resource names. */
const quantities = mapOf({ pattern: /^\S+$/, rule: 'is no resource' });

const resources = section({
  requests: {
    kind: quantities,
    description: 'What one pod asks for.',
    isRequired: true,
    defaultText: 'must be given with resources',
    example: '{cpu: 500m, memory: 1G}',
  },
  limits: {
    kind: quantities,
    description: 'What it may use at most. GPUs and the like get their request as their limit.',
    example: '{memory: 2G}',
  },
});

export const kubernetes = {
  description:
    'Runs the job in a Kubernetes cluster, as `jobman submit` does. An empty section (`kubernetes: {}`) is enough.',
  kind: section({
    image: {
      kind: line({ description: 'image' }),
      description: 'The image, behind the prefix of the settings.',
      defaultText: 'job.defaultImage of the settings',
      example: 'alpine:3',
    },
    flavor: {
      kind: line(),
      description:
        "A resources flavor: its name, a file or its JSON. `jobman resources-flavors` shows the settings' own.",
      defaultText: 'job.resources.default of the settings',
      example: 'no-gpu',
      aliases: ['resources_flavor'],
    },
    resources: {
      kind: resources,
      description: 'Resources without a name, in place of a flavor.',
      defaultText: 'those of the flavor',
      example: '{requests: {cpu: 2, memory: 4G}}',
    },
    gpus: {
      kind: parsedLine('n[:model]', readGpus),
      description:
        'GPUs of each pod: how many, and if it matters the model as the nodes are labelled, or the resource.',
      defaultText: 'those of the flavor',
      example: '2:NVIDIA-A100-SXM4-80GB',
    },
    namespace: {
      kind: objectName('namespace'),
      description: 'The namespace.',
      defaultText: "that of the kubeconfig's context",
      example: 'vision',
    },
    context: {
      kind: line({ description: 'context' }),
      description: 'The context of the kubeconfig.',
      defaultText: "the kubeconfig's own choice",
      example: 'lab',
    },
    annotations: {
      kind: mapOf({ pattern: /^\S+$/, rule: 'is no key of an annotation' }),
      description: 'Annotations of the Job, over those of the settings.',
      example: '{team: vision}',
    },
    command: {
      kind: listOf(text()),
      description: "Words that replace the image's entry point; `command.run` is a script in place of it.",
      defaultText: "the image's own",
      example: '[python3, train.py]',
    },
    args: {
      kind: listOf(text()),
      description: 'Words behind the entry point.',
      defaultText: "the image's own",
      example: '[ls, -al, /]',
    },
    secrets: {
      kind: listOf(parsedLine('NAME:KEY=VARIABLE', readSecret), 'list of NAME:KEY=VARIABLE'),
      description:
        'Secrets of the cluster by reference: a key of one as a variable. `NAME:KEY` is the variable KEY, `NAME` all keys under their own names.',
      example: '[wandb:api-key=WANDB_API_KEY]',
    },
    volumes: {
      kind: listOf(parsedLine('claim:path[:ro]', readVolume), 'list of claim:path[:ro]'),
      description: 'PersistentVolumeClaims and where they appear.',
      example: '[datasets:/data:ro]',
    },
    shm: {
      kind: line({ description: 'amount', pattern: quantityPattern, rule: 'is no amount; write 8G or 512Mi' }),
      description: 'The size of /dev/shm, which loaders of data share; it counts as memory of the pod.',
      defaultText: "the node's own, often 64M",
      example: '8G',
    },
    service_account: {
      kind: objectName('name'),
      description: 'The ServiceAccount that the pods act as.',
      defaultText: 'that of the namespace',
      example: 'trainer',
    },
    labels: {
      kind: mapOf({ pattern: /^\S+$/, rule: 'is not a label key' }),
      description: 'Labels of the Job and of its pods.',
      example: '{team: vision}',
    },
    node_selector: {
      kind: mapOf({ pattern: /^\S+$/, rule: 'is not a label key' }),
      description: 'Labels that the node must have.',
      example: '{disk: ssd}',
    },
    tolerations: {
      kind: listOf(parsedLine('KEY[=VALUE][:EFFECT]', readToleration), 'list of KEY[=VALUE][:EFFECT]'),
      description: 'Taints that the pods tolerate: `gpu`, `gpu=a100` or `gpu=a100:NoSchedule`.',
      defaultText: 'one for each extended resource',
      example: '[gpu=a100:NoSchedule]',
    },
    priority_class: {
      kind: objectName('name'),
      description: 'The PriorityClass of the pods.',
      defaultText: 'job.priorityClassName of the settings',
      example: 'high',
    },
    image_pull_secrets: {
      kind: listOf(objectName('secret'), 'list of secrets'),
      description: 'Secrets with the login of a registry.',
      example: '[registry]',
    },
    parallelism: {
      kind: int(1, 100_000),
      description: 'How many pods run at once. Above 1 each has a number, JOB_COMPLETION_INDEX.',
      defaultText: '1',
      example: '4',
    },
    completions: {
      kind: int(1, 100_000),
      description: 'How many pods have to succeed. Above 1 each has a number, JOB_COMPLETION_INDEX.',
      defaultText: 'parallelism',
      example: '16',
    },
    backoff_limit: {
      kind: int(0, 1_000_000),
      description: 'How many failed pods are replaced before the job has failed.',
      defaultText: '0',
      example: '3',
    },
    timeout: {
      kind: duration(second),
      description: 'The longest run, all pods together; then Kubernetes ends the job as failed.',
      defaultText: 'job.max_runtime, else no limit',
      example: '12h',
    },
    ttl: {
      kind: durationOrNone(),
      description: 'How long after its end Kubernetes removes the job with its pods; `none`: never.',
      defaultText: 'job.ttl of the settings, 7d',
      example: '1d',
    },
    suspend: {
      kind: bool(),
      description: 'Create it without starting it; `jobman start` does.',
      defaultText: 'false',
      example: 'true',
    },
    queue: {
      kind: objectName('queue'),
      description: "The queue of Kueue that it waits in; this is Kueue's label.",
      example: 'vision',
    },
  }),
} satisfies Key<unknown>;
