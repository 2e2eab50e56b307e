// Reads the kubeconfig: the chosen cluster, its server and the user. docs/decisions/kubernetes-client.md explains why
// jobman does not use the client library. The format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/

import { existsSync, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import type { ClusterOptions } from '../../app/cluster/cluster.ts';
import type { ClusterSettings } from '../../app/cluster/settings.ts';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { readRegularFile } from '../../app/files.ts';

export interface KubeconfigSources {
  readonly setting: ClusterSettings['kubeConfig'];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userHome: string;
  /** Base of relative paths in KUBECONFIG. */
  readonly cwd: string;
  /** The service account of a pod; another folder in tests. */
  readonly serviceAccountFolder?: string;
}

/** A context with its cluster and user. File paths are absolute. */
export interface KubeContext {
  readonly name: string;
  readonly namespace: string;
  readonly cluster: KubeCluster;
  readonly user: KubeUser;
  readonly userName: string;
  /** For messages: the file names, or `the service account of this pod`. */
  readonly source: string;
}

type KubeCluster = ValuesOf<typeof clusterKinds> & { readonly server: string };

/** The `user` of a kubeconfig, with the original keys. */
export type KubeUser = Omit<ValuesOf<typeof userKinds>, 'exec' | 'auth-provider'> & {
  readonly exec?: KubeExec;
  readonly 'auth-provider'?: { readonly name: string; readonly config?: Readonly<Record<string, unknown>> };
};

export type KubeExec = ValuesOf<typeof execKinds> & { readonly command: string };

const podServiceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

const defaultNamespace = 'default';

/** True if a kubeconfig exists or this process runs in a pod. Reads no content, so it is cheap for every command. */
export function hasClusterConfig(sources: KubeconfigSources): boolean {
  return sources.setting.type === 'cluster'
    ? isInPod(sources)
    : kubeconfigFiles(sources).some((file) => existsSync(file)) || isInPod(sources);
}

/**
 * Throws JobmanError: unreachable without a usable configuration, not found for an unknown context, usage for a file
 * that is not YAML.
 */
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
  const merged = mergeKubeconfigs(files.map(readKubeconfig));
  const fileNames = files.join(', ');
  const contextName = options.context ?? merged.current;
  const names = [...merged.contexts.keys()];
  if (contextName === undefined || contextName === '') {
    throw new JobmanError(`The kubeconfig ${fileNames} has no current context.`, exitCode.unreachable, [
      `Use --context, or choose one with kubectl config use-context: ${names.join(', ') || 'there are none'}.`,
    ]);
  }
  const context = merged.contexts.get(contextName);
  if (context === undefined) {
    const suggestion = didYouMean(contextName, names);
    throw new JobmanError(`The kubeconfig ${fileNames} has no context ${contextName}.`, exitCode.notFound, [
      suggestion === undefined ? `The contexts are: ${names.join(', ') || 'none'}.` : `Did you mean ${suggestion}?`,
    ]);
  }
  const validate = createValidator(fileNames);
  validate(`The context ${contextName}`, context, contextKinds);
  const cluster = merged.clusters.get(context.cluster ?? '');
  const user = merged.users.get(context.user ?? '') ?? {};
  if (cluster !== undefined) validate(`The cluster ${context.cluster}`, cluster, clusterKinds);
  validate(`The user ${context.user}`, user, userKinds);
  if (user.exec !== undefined) validate(`The section exec of the user ${context.user}`, user.exec, execKinds);
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

// ------------------------------------------------------------------------------------------ files

type RawContext = ValuesOf<typeof contextKinds>;

interface ParsedKubeconfig {
  readonly current: string | undefined;
  readonly contexts: ReadonlyMap<string, RawContext>;
  readonly clusters: ReadonlyMap<string, Partial<KubeCluster>>;
  readonly users: ReadonlyMap<string, KubeUser>;
}

const pathKeys = ['certificate-authority', 'client-certificate', 'client-key', 'tokenFile'];

function readKubeconfig(file: string): ParsedKubeconfig {
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
  const current = document['current-context'];
  return {
    current: typeof current === 'string' && current !== '' ? current : undefined,
    contexts: entriesByName(document['contexts'], 'context', file),
    clusters: entriesByName(document['clusters'], 'cluster', file),
    users: entriesByName(document['users'], 'user', file),
  };
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

function entriesByName<T>(list: unknown, field: string, file: string): ReadonlyMap<string, T> {
  const found = new Map<string, T>();
  for (const entry of Array.isArray(list) ? list : []) {
    if (!isObject(entry) || typeof entry['name'] !== 'string') continue;
    const value = isObject(entry[field]) ? withoutNulls(entry[field]) : {};
    for (const key of pathKeys) {
      const path = value[key];
      if (typeof path === 'string' && path !== '' && !isAbsolute(path)) value[key] = join(dirname(file), path);
    }
    // A login program is searched in PATH unless its name contains a slash.
    const exec = value['exec'];
    if (isObject(exec) && typeof exec['command'] === 'string' && exec['command'].includes('/')) {
      value['exec'] = { ...withoutNulls(exec), command: resolve(dirname(file), exec['command']) };
    }
    if (!found.has(entry['name'])) found.set(entry['name'], value as T);
  }
  return found;
}

function withoutNulls(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(map).filter(([, value]) => value !== null));
}

/** The type of each kind. `line` has no control characters, because it goes into a header or a command line. */
interface KindValues {
  readonly line: string;
  readonly text: string;
  readonly bool: boolean;
  readonly lines: readonly string[];
  readonly map: object;
  readonly pairs: readonly { readonly name: string; readonly value: string }[];
  readonly command: string;
}

type Kind = keyof KindValues;
type ValuesOf<Kinds extends Readonly<Record<string, Kind>>> = {
  readonly [Key in keyof Kinds]?: KindValues[Kinds[Key]];
};

const contextKinds = { cluster: 'line', user: 'line', namespace: 'line' } as const;
const clusterKinds = {
  server: 'line',
  'certificate-authority': 'line',
  'certificate-authority-data': 'text',
  'insecure-skip-tls-verify': 'bool',
  'tls-server-name': 'line',
  'proxy-url': 'line',
} as const;
const userKinds = {
  'client-certificate': 'line',
  'client-certificate-data': 'text',
  'client-key': 'line',
  'client-key-data': 'text',
  token: 'line',
  tokenFile: 'line',
  username: 'line',
  password: 'text',
  as: 'line',
  'as-uid': 'line',
  'as-groups': 'lines',
  exec: 'map',
  'auth-provider': 'map',
} as const;
const execKinds = {
  command: 'command',
  args: 'lines',
  env: 'pairs',
  apiVersion: 'line',
  installHint: 'text',
  provideClusterInfo: 'bool',
} as const;

// eslint-disable-next-line no-control-regex
const isLine = (value: unknown): boolean => typeof value === 'string' && !/[\0-\x08\x0a-\x1f\x7f]/.test(value);
const isList = (value: unknown, of: (item: unknown) => boolean): boolean =>
  value === null || (Array.isArray(value) && value.every(of));

const kinds: Readonly<Record<Kind, { readonly isValid: (value: unknown) => boolean; readonly description: string }>> = {
  line: { isValid: isLine, description: 'a text without line breaks' },
  text: { isValid: (value) => typeof value === 'string', description: 'text' },
  bool: { isValid: (value) => typeof value === 'boolean', description: 'true or false' },
  lines: { isValid: (value) => isList(value, isLine), description: 'a list of texts' },
  map: { isValid: isObject, description: 'a map' },
  pairs: {
    isValid: (value) => isList(value, (item) => isObject(item) && isLine(item['name']) && isLine(item['value'])),
    description: 'a list of entries with a name and a value',
  },
  command: { isValid: (value) => isLine(value) && value !== '', description: 'the name of a program' },
};

/** The check throws JobmanError (unreachable). Its message omits the value, which may be a secret. */
function createValidator(file: string) {
  return (subject: string, map: object, expected: Readonly<Record<string, Kind>>): void => {
    for (const [key, kind] of Object.entries(expected)) {
      const value = (map as Readonly<Record<string, unknown>>)[key];
      if (value === undefined && kind !== 'command') continue;
      if (kinds[kind].isValid(value)) continue;
      throw new JobmanError(
        `${subject} in the kubeconfig ${file} cannot be used: ${key} must be ${kinds[kind].description}.`,
        exitCode.unreachable,
      );
    }
  };
}

/** Merges like kubectl: the first file that defines a name wins. */
function mergeKubeconfigs(configs: readonly ParsedKubeconfig[]): ParsedKubeconfig {
  const firstOf = <T>(pick: (config: ParsedKubeconfig) => ReadonlyMap<string, T>): ReadonlyMap<string, T> =>
    new Map(configs.toReversed().flatMap((config) => [...pick(config)]));
  return {
    current: configs.find(({ current }) => current !== undefined)?.current,
    contexts: firstOf(({ contexts }) => contexts),
    clusters: firstOf(({ clusters }) => clusters),
    users: firstOf(({ users }) => users),
  };
}

// ------------------------------------------------------------------------------------------ pods

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
