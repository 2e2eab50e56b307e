// Reads the kubeconfig: the chosen cluster, its server and the user. docs/decisions/kubernetes-client.md explains why
// jobman does not use the client library. The format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/

import { existsSync, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import type { ClusterOptions } from '../../app/cluster/cluster.ts';
import type { ClusterSettings } from '../../app/cluster/settings.ts';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { readRegularFile } from '../../files/files.ts';
import { matchesShape, type Shape, type ShapeValue } from '../../app/json.ts';

export interface KubeconfigSources {
  readonly setting: ClusterSettings['kubeConfig'];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userHome: string;
  /** Base of relative paths in KUBECONFIG. */
  readonly cwd: string;
  /** The service account of a pod; another folder in tests. */
  readonly serviceAccountFolder?: string;
}

/** File paths are absolute. */
export interface KubeContext {
  readonly name: string;
  readonly namespace: string;
  readonly cluster: KubeCluster;
  readonly user: KubeUser;
  readonly userName: string;
  /** For messages: the file names, or `the service account of this pod`. */
  readonly source: string;
}

const contextShape = { cluster: 'string', user: 'string', namespace: 'string' } as const satisfies Shape;
const clusterShape = {
  server: 'string',
  'certificate-authority': 'string',
  'certificate-authority-data': 'string',
  'insecure-skip-tls-verify': 'boolean',
  'tls-server-name': 'string',
  'proxy-url': 'string',
} as const satisfies Shape;
const userShape = {
  'client-certificate': 'string',
  'client-certificate-data': 'string',
  'client-key': 'string',
  'client-key-data': 'string',
  token: 'string',
  tokenFile: 'string',
  username: 'string',
  password: 'string',
  as: 'string',
  'as-uid': 'string',
  'as-groups': ['string'],
  exec: {
    command: 'string',
    args: ['string'],
    env: [{ name: 'string', value: 'string' }],
    apiVersion: 'string',
    installHint: 'string',
    provideClusterInfo: 'boolean',
  },
  'auth-provider': { name: 'string', config: { '*': 'string' } },
} as const satisfies Shape;

type KubeCluster = ShapeValue<typeof clusterShape> & { readonly server: string };

/** The `user` of a kubeconfig, with the original keys. */
export type KubeUser = ShapeValue<typeof userShape>;

export type KubeExec = NonNullable<KubeUser['exec']>;

const podServiceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

const defaultNamespace = 'default';

/** True if a kubeconfig exists or this process runs in a pod. Reads no content, so it is cheap for every command. */
export function hasClusterConfig(sources: KubeconfigSources): boolean {
  return sources.setting.type === 'cluster'
    ? isInPod(sources)
    : kubeconfigFiles(sources).some((file) => existsSync(file)) || isInPod(sources);
}

/** Throws JobmanError: unreachable without a configuration, not found without the context, usage for invalid YAML. */
export async function readKubeContext(sources: KubeconfigSources, options: ClusterOptions): Promise<KubeContext> {
  const { setting } = sources;
  const files = setting.type === 'cluster' ? [] : kubeconfigFiles(sources).filter((file) => existsSync(file));
  if (files.length === 0) {
    const pod = setting.type !== 'file' && isInPod(sources) ? podContext(sources, options) : undefined;
    if (pod === undefined) throw noKubeconfigError(sources);
    if (options.context !== undefined && options.context !== pod.name) {
      throw new JobmanError(
        `There is no context ${options.context}: jobman found no kubeconfig, only the service account of this pod.`,
        exitCode.notFound,
      );
    }
    return pod;
  }
  const configs = files.map(readKubeconfig);
  const fileNames = files.join(', ');
  const contextName = options.context ?? configs.map(({ document }) => document['current-context']).find(isName);
  const names = [...new Set(configs.flatMap((config) => entriesOf(config, 'contexts').map(({ name }) => name)))];
  if (contextName === undefined || contextName === '') {
    throw new JobmanError(`The kubeconfig ${fileNames} has no current context.`, exitCode.unreachable, [
      `Use --context, or choose one with kubectl config use-context: ${names.join(', ') || 'there are none'}.`,
    ]);
  }
  const context = findEntry(configs, 'context', contextName, contextShape);
  if (context === undefined) {
    const suggestion = didYouMean(contextName, names);
    throw new JobmanError(`The kubeconfig ${fileNames} has no context ${contextName}.`, exitCode.notFound, [
      suggestion === undefined ? `The contexts are: ${names.join(', ') || 'none'}.` : `Did you mean ${suggestion}?`,
    ]);
  }
  const cluster = findEntry(configs, 'cluster', context.cluster, clusterShape);
  const user = findEntry(configs, 'user', context.user, userShape) ?? {};
  if (cluster?.server === undefined) {
    throw new JobmanError(
      `The context ${contextName} of ${fileNames} refers to the cluster ${String(context.cluster)}, which has no server there.`,
      exitCode.unreachable,
    );
  }
  if (!/^https?:\/\//.test(cluster.server) || URL.parse(cluster.server) === null) {
    throw new JobmanError(
      `The server of the context ${contextName} in ${fileNames} is ${cluster.server}; it must be a URL such as https://10.0.0.1:6443.`,
      exitCode.unreachable,
    );
  }
  return {
    name: contextName,
    namespace: options.namespace ?? context.namespace ?? defaultNamespace,
    cluster: cluster as KubeCluster,
    user,
    userName: context.user ?? 'unknown',
    source: fileNames,
  };
}

function kubeconfigFiles({ setting, env, userHome, cwd }: KubeconfigSources): readonly string[] {
  if (setting.type === 'file') return setting.file === null ? [] : [setting.file];
  const listed = (env['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
  return listed.length === 0 ? [join(userHome, '.kube', 'config')] : listed.map((file) => resolve(cwd, file));
}

function noKubeconfigError(sources: KubeconfigSources): JobmanError {
  if (sources.setting.type === 'cluster') {
    return new JobmanError(
      'The setting kubeConfig.type is "cluster", but this process does not run in a pod with a service account.',
      exitCode.unreachable,
    );
  }
  const files = kubeconfigFiles(sources);
  return new JobmanError(
    files.length === 0
      ? 'The setting kubeConfig.type is "file", but kubeConfig.file is not set.'
      : `There is no cluster configuration: the kubeconfig ${files.join(', ')} does not exist.`,
    exitCode.unreachable,
    ['Ask the administrator of the cluster for a kubeconfig and save it as ~/.kube/config, or set KUBECONFIG.'],
  );
}

interface KubeconfigFile {
  readonly file: string;
  readonly document: Readonly<Record<string, unknown>>;
}

const pathKeys = ['certificate-authority', 'client-certificate', 'client-key', 'tokenFile'];

function readKubeconfig(file: string): KubeconfigFile {
  let text: string;
  try {
    text = isPipe(file) ? readPipe(file) : readRegularFile(file).toString('utf8');
  } catch (error) {
    throw new JobmanError(`The kubeconfig ${file} cannot be read: ${messageOf(error)}.`, exitCode.unreachable);
  }
  let document: unknown;
  try {
    document = parse(text);
  } catch (error) {
    const [first = ''] = messageOf(error).split('\n');
    throw new JobmanError(`The kubeconfig ${file} is not valid YAML.`, exitCode.usage, [first], { cause: error });
  }
  if (!isObject(document)) throw new JobmanError(`The kubeconfig ${file} is empty.`, exitCode.unreachable);
  return { file, document };
}

/** True for an inherited pipe, as the shell passes it for `KUBECONFIG=<(decrypt config)`. */
function isPipe(path: string): boolean {
  return /^\/(?:dev|proc\/self)\/fd\/\d+$/.test(path) && statSync(path, { throwIfNoEntry: false })?.isFIFO() === true;
}

/** The content of each pipe, because a pipe can be read only once. */
const pipeContents = new Map<string, string>();

function readPipe(path: string): string {
  // Read by descriptor number: opening a named pipe without a writer by its path would block.
  const text = pipeContents.get(path) ?? readFileSync(Number(path.slice(path.lastIndexOf('/') + 1)), 'utf8');
  pipeContents.set(path, text);
  return text;
}

function entriesOf({ document }: KubeconfigFile, list: string): readonly { readonly name: string }[] {
  const entries = document[list];
  return Array.isArray(entries) ? entries.filter((entry) => isObject(entry) && isName(entry['name'])) : [];
}

/** The context, cluster or user of a name, with absolute paths. As for kubectl, the first file that defines it wins. */
function findEntry<S extends Shape & object>(
  configs: readonly KubeconfigFile[],
  kind: 'context' | 'cluster' | 'user',
  name: string | undefined,
  shape: S,
): ShapeValue<S> | undefined {
  for (const config of configs) {
    const entry = entriesOf(config, `${kind}s`).find((one) => one.name === name);
    if (entry === undefined) continue;
    const written = (entry as Readonly<Record<string, unknown>>)[kind];
    const fields = Object.entries(isObject(written) ? written : {}).filter(([, value]) => value !== null);
    for (const [key, value] of fields) {
      const expected = (shape as Readonly<Record<string, Shape>>)[key];
      const isRight = expected === undefined || matchesShape(value, expected, true);
      // The message omits the value, which may be a secret.
      if (!isRight || (key === 'exec' && !isName((value as KubeExec).command))) {
        throw new JobmanError(
          `The ${kind} ${name} in the kubeconfig ${config.file} cannot be used: ${key} has an invalid value.`,
          exitCode.unreachable,
        );
      }
    }
    return Object.fromEntries(fields.map(([key, value]) => [key, withAbsolutePath(key, value, config.file)])) as never;
  }
  return undefined;
}

function withAbsolutePath(key: string, value: unknown, file: string): unknown {
  if (pathKeys.includes(key) && isName(value)) return resolve(dirname(file), value);
  if (key !== 'exec') return value;
  const exec = value as KubeExec;
  // A login program is searched in PATH unless its name contains a slash.
  return exec.command?.includes('/') === true ? { ...exec, command: resolve(dirname(file), exec.command) } : exec;
}

function isInPod({ env, serviceAccountFolder = podServiceAccountFolder }: KubeconfigSources): boolean {
  return env['KUBERNETES_SERVICE_HOST'] !== undefined && existsSync(join(serviceAccountFolder, 'token'));
}

function podContext(
  { env, serviceAccountFolder = podServiceAccountFolder }: KubeconfigSources,
  options: ClusterOptions,
): KubeContext {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? '';
  const port = env['KUBERNETES_SERVICE_PORT'] ?? '443';
  const namespaceFile = join(serviceAccountFolder, 'namespace');
  const podNamespace = existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : defaultNamespace;
  return {
    name: 'in-cluster',
    namespace: options.namespace ?? podNamespace,
    cluster: {
      server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
      'certificate-authority': join(serviceAccountFolder, 'ca.crt'),
    },
    user: { tokenFile: join(serviceAccountFolder, 'token') },
    userName: 'the service account of this pod',
    source: 'the service account of this pod',
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
