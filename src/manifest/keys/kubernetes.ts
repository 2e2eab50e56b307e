import { second } from '../../core/model/time.ts';
import { duration, either, line, listOf, mapOf, quoteValue, section, oneOf, text, int, flag } from '../kinds.ts';
import { key, refined, type Key, type Kind } from '../../schema/kinds.ts';
import {
  isQualifiedName,
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
  return refined(line({ description }), (written, fail) => {
    const found = read(written);
    return 'value' in found ? found.value : fail(`${quoteValue(written)} ${found.problem}`, found.suggestion);
  });
}

const durationOrNone = either(duration(), (tree) => tree.kind !== 'scalar' || tree.value !== 'none', oneOf(['none']));

const objectName = (description: string): Kind<string> => parsedLine(description, readObjectName);

/** app/cluster/flavor.ts checks the resource names. */
const quantities = mapOf(
  { pattern: /^\S+$/, rule: 'is not the name of a resource' },
  text({ pattern: quantityPattern, rule: 'is not a quantity; write 500m, 1G or 2Gi' }),
);

const resources = section({
  requests: key(quantities, 'Resource requests of one pod.', {
    isRequired: true,
    defaultText: 'required with resources',
    example: '{cpu: 500m, memory: 1G}',
  }),
  limits: key(
    quantities,
    'Resource limits of one pod. For GPUs and other extended resources the limit is the request.',
    { example: '{memory: 2G}' },
  ),
});

export const kubernetes = {
  description:
    'Runs the job in a Kubernetes cluster, as `jobman submit` does. An empty section (`kubernetes: {}`) is enough.',
  kind: section({
    image: key(line({ description: 'image' }), 'The image. jobman adds the image prefix of the settings.', {
      defaultText: 'job.defaultImage of the settings',
      example: 'alpine:3',
    }),
    flavor: key(
      line(),
      'A resource flavor: a name, a file or JSON. `jobman resources-flavors` lists the flavors of the settings.',
      { defaultText: 'job.resources.default of the settings', example: 'no-gpu', aliases: ['resources_flavor'] },
    ),
    resources: key(resources, 'Resources, instead of a flavor.', {
      defaultText: "the flavor's",
      example: '{requests: {cpu: 2, memory: 4G}}',
    }),
    gpus: key(
      parsedLine('n[:model]', readGpus),
      'GPUs of each pod: the number, and optionally the model (as on the label of the nodes) or the resource.',
      { defaultText: "the flavor's", example: '2:NVIDIA-A100-SXM4-80GB' },
    ),
    namespace: key(objectName('namespace'), 'The namespace.', {
      defaultText: "the namespace of the kubeconfig's context",
      example: 'vision',
    }),
    context: key(line({ description: 'context' }), 'The context of the kubeconfig.', {
      defaultText: "the kubeconfig's current context",
      example: 'lab',
    }),
    annotations: key(
      mapOf({ pattern: { test: isQualifiedName }, rule: 'is not a valid key of an annotation' }),
      'Annotations of the Job; they override those of the settings.',
      { example: '{team: vision}' },
    ),
    command: key(listOf(text()), "Replaces the image's entry point. For a script use `command.run` instead.", {
      defaultText: "the image's",
      example: '[python3, train.py]',
    }),
    args: key(listOf(text()), 'Arguments of the entry point.', { defaultText: "the image's", example: '[ls, -al, /]' }),
    secrets: key(
      listOf(parsedLine('NAME:KEY=VARIABLE', readSecret), 'list of NAME:KEY=VARIABLE'),
      'References to Secrets of the cluster, as environment variables. `NAME:KEY` sets the variable KEY; `NAME` sets all keys under their own names.',
      { example: '[wandb:api-key=WANDB_API_KEY]' },
    ),
    volumes: key(
      listOf(parsedLine('claim:path[:ro]', readVolume), 'list of claim:path[:ro]'),
      'PersistentVolumeClaims and their mount paths.',
      { example: '[datasets:/data:ro]' },
    ),
    shm: key(
      line({ description: 'quantity', pattern: quantityPattern, rule: 'is not a quantity; write 8G or 512Mi' }),
      'Size of /dev/shm, which data loaders use. It counts as memory of the pod.',
      { defaultText: "the node's default, often 64M", example: '8G' },
    ),
    service_account: key(objectName('name'), 'ServiceAccount of the pods.', {
      defaultText: "the namespace's default",
      example: 'trainer',
    }),
    labels: key(mapOf({ pattern: /^\S+$/, rule: 'is not a label key' }), 'Labels of the Job and of its pods.', {
      example: '{team: vision}',
    }),
    node_selector: key(mapOf({ pattern: /^\S+$/, rule: 'is not a label key' }), 'Labels that a node must have.', {
      example: '{disk: ssd}',
    }),
    tolerations: key(
      listOf(parsedLine('KEY[=VALUE][:EFFECT]', readToleration), 'list of KEY[=VALUE][:EFFECT]'),
      'Taints that the pods tolerate: `gpu`, `gpu=a100` or `gpu=a100:NoSchedule`.',
      { defaultText: 'one for each extended resource', example: '[gpu=a100:NoSchedule]' },
    ),
    priority_class: key(objectName('name'), 'PriorityClass of the pods.', {
      defaultText: 'job.priorityClassName of the settings',
      example: 'high',
    }),
    image_pull_secrets: key(listOf(objectName('secret'), 'list of secrets'), 'Secrets with registry credentials.', {
      example: '[registry]',
    }),
    parallelism: key(
      int(1, 100_000),
      'How many pods run at the same time. Above 1 each pod has an index, JOB_COMPLETION_INDEX.',
      { defaultText: '1', example: '4' },
    ),
    completions: key(
      int(1, 100_000),
      'How many pods must succeed. Above 1 each pod has an index, JOB_COMPLETION_INDEX.',
      { defaultText: 'parallelism', example: '16' },
    ),
    backoff_limit: key(int(0, 1_000_000), 'How many failed pods Kubernetes replaces before the job fails.', {
      defaultText: '0',
      example: '3',
    }),
    timeout: key(duration(second), 'Maximum run time of the whole job. After it Kubernetes ends the job as failed.', {
      defaultText: 'job.max_runtime, otherwise no limit',
      example: '12h',
    }),
    ttl: key(durationOrNone, 'How long after its end Kubernetes deletes the job with its pods; `none` is never.', {
      defaultText: 'job.ttl of the settings, 7d',
      example: '1d',
    }),
    suspend: flag('Create the job without starting it; start it with `jobman start`.'),
    queue: key(objectName('queue'), 'Kueue queue of the job.', { example: 'vision' }),
  }),
} satisfies Key<unknown>;
