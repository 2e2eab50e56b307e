// Words of a Kubernetes job that are the same on the command line and in a manifest: names, GPUs, volumes, secrets,
// amounts. Each is taken apart here once; what is wrong with one is a phrase that stands after what was written.

export type Reading<T> = { readonly value: T } | { readonly wrong: string; readonly meant?: string };

/** A resource and how many of it: `2`, `1:NVIDIA-A100-SXM4-80GB`, `4:amd.com/gpu`. */
export interface GpuWish {
  readonly count: number;
  /** The exact value of the node's label for its model; null for any. */
  readonly model: string | null;
  /** An extended resource; null for the one that the settings or the flavor name. */
  readonly resource: string | null;
}

export interface VolumeWish {
  readonly claim: string;
  readonly path: string;
  readonly readOnly: boolean;
}

/** A Secret of the cluster by reference: one of its keys as a variable, or all of them under their own names. */
export type SecretWish =
  | { readonly secret: string; readonly key: string; readonly variable: string }
  | { readonly secret: string; readonly key: null };

/** A taint that the pods tolerate, in Kubernetes' own fields. Without a value any value; without an effect every effect. */
export interface Toleration {
  readonly key: string;
  readonly value: string | null;
  readonly effect: (typeof taintEffects)[number] | null;
}

/** https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/ */
const taintEffects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] as const;

/** RFC 1123, as Kubernetes checks names of most of its objects. */
const label = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?';
const subdomain = new RegExp(`^${label}(?:\\.${label})*$`);

/** A Job's name is also a label's value and the beginning of its pods' names. */
const jobNameMost = 63;
const objectNameMost = 253;

/** Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#writing-a-job-spec */
export function readJobName(written: string): Reading<string> {
  return readName(written, jobNameMost);
}

/** The name of another object of a cluster: a claim, a Secret, a namespace, a service account, a queue. */
export function readObjectName(written: string): Reading<string> {
  return readName(written, objectNameMost);
}

function readName(written: string, most: number): Reading<string> {
  if (subdomain.test(written) && written.length <= most) return { value: written };
  const meant = written
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, '-')
    .replaceAll(/[.-]*\.[.-]*/g, '.')
    .slice(0, most)
    .replace(/^[.-]+/, '')
    .replace(/[.-]+$/, '');
  const wrong =
    written.length > most && subdomain.test(written)
      ? `is ${written.length} characters long, and Kubernetes takes ${most}`
      : `is no name in Kubernetes: small letters, digits, "-" and ".", at most ${most}, a letter or digit at both ends`;
  return meant === '' || meant === written ? { wrong } : { wrong, meant };
}

/** `n[:model]` or `n:resource`; a resource has a slash, which a model cannot have. */
export function readGpus(written: string): Reading<GpuWish> {
  const [, count = '', rest] = /^(\d{1,4})(?::(.+))?$/.exec(written.trim()) ?? [];
  if (Number(count) < 1) return { wrong: 'is no number of GPUs: write 1, 2:MODEL or 4:amd.com/gpu' };
  if (rest === undefined) return { value: { count: Number(count), model: null, resource: null } };
  if (rest.includes('/')) {
    if (!isQualifiedName(rest)) return { wrong: `names ${rest}, which is no name of a resource` };
    return { value: { count: Number(count), model: null, resource: rest } };
  }
  if (!isLabelValue(rest)) return { wrong: `names the model ${rest}, which no label of a node can hold` };
  return { value: { count: Number(count), model: rest, resource: null } };
}

export function readVolume(written: string): Reading<VolumeWish> {
  const [claim = '', path = '', mode, ...more] = written.trim().split(':');
  if (more.length > 0 || path === '' || !(mode === undefined || mode === 'ro' || mode === 'rw')) {
    return { wrong: 'is no volume: write claim:/path or claim:/path:ro' };
  }
  const name = readObjectName(claim);
  if ('wrong' in name) return { wrong: `names the claim "${claim}", which ${name.wrong}` };
  if (!path.startsWith('/')) return { wrong: `has the path ${path}, which should begin with a slash` };
  return { value: { claim, path, readOnly: mode === 'ro' } };
}

/** `NAME:KEY=VARIABLE`; `NAME:KEY` is the variable KEY, `NAME` alone all keys under their own names. */
export function readSecret(written: string): Reading<SecretWish> {
  const [, secret = '', key, variable = key] = /^([^:=]+)(?::([^:=]+)(?:=(.+))?)?$/.exec(written.trim()) ?? [];
  if (secret === '') return { wrong: 'is no secret: write NAME:KEY=VARIABLE, NAME:KEY or NAME' };
  const name = readObjectName(secret);
  if ('wrong' in name) return { wrong: `names the Secret "${secret}", which ${name.wrong}` };
  if (key === undefined || variable === undefined) return { value: { secret, key: null } };
  // https://kubernetes.io/docs/concepts/configuration/secret/#restriction-names-data
  if (!/^[A-Za-z0-9._-]{1,253}$/.test(key)) return { wrong: `names the key "${key}", which no Secret can have` };
  if (!isVariableName(variable)) return { wrong: `names the variable "${variable}", which is no name of one` };
  return { value: { secret, key, variable } };
}

export function readLabel(written: string): Reading<readonly [key: string, value: string]> {
  const [, key = '', value] = /^([^=]*)=(.*)$/s.exec(written) ?? [];
  if (value === undefined) return { wrong: 'is not a label: write KEY=VALUE' };
  if (!isQualifiedName(key))
    return { wrong: `has the key "${key}", which is not valid: letters, digits, "-", "_", "."` };
  if (!isLabelValue(value)) {
    return { wrong: `has the value "${value}", which is not valid: at most 63 letters, digits, "-", "_", "."` };
  }
  return { value: [key, value] };
}

/** `KEY`, `KEY=VALUE`, each also with `:EFFECT`, as `kubectl taint` writes a taint. */
export function readToleration(written: string): Reading<Toleration> {
  const [, key = '', value = null, effect = null] = /^([^=:]*)(?:=([^:]*))?(?::(.*))?$/s.exec(written) ?? [];
  if (!isQualifiedName(key)) return { wrong: 'is not a toleration: write KEY, KEY=VALUE or KEY=VALUE:NoSchedule' };
  if (value !== null && !isLabelValue(value)) return { wrong: `has the value "${value}", which no taint can have` };
  const known = taintEffects.find((one) => one === effect);
  if (effect !== null && known === undefined) {
    return { wrong: `has the effect "${effect}"; the effects are ${taintEffects.join(', ')}` };
  }
  return { value: { key, value, effect: known ?? null } };
}

/** An amount of Kubernetes: `1`, `500m`, `1.5Gi`, `2e3`. app/cluster/quantity.ts computes its value. */
export const amountPattern = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,3})?$/;

export function isVariableName(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_.-]{0,252}$/.test(text);
}

export function isLabelValue(text: string): boolean {
  return text.length <= 63 && /^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?$/.test(text);
}

/** The key of a label or annotation, and the name of a resource: `[domain/]name`. */
export function isQualifiedName(text: string): boolean {
  const [, prefix, name = ''] = /^(?:([^/]*)\/)?([^/]*)$/.exec(text) ?? [];
  const isPrefix = prefix === undefined || (prefix.length <= 253 && subdomain.test(prefix));
  return isPrefix && name !== '' && isLabelValue(name);
}

/** An image as Kubernetes takes it: no blank, and no capital but in its tag. Whether it exists its registry knows. */
export function readImage(written: string): Reading<string> {
  const [, repository = '', rest = ''] = /^(.*?)((?::[^/:@]*)?(?:@[^@]*)?)$/.exec(written) ?? [];
  // https://github.com/distribution/reference: a domain with a port, path parts, a tag, a digest.
  const [first = '', ...parts] = repository.split('/');
  const isDomain = parts.length > 0 && (/[.:]/.test(first) || first === 'localhost' || /[A-Z]/.test(first));
  const path = isDomain ? parts : [first, ...parts];
  const isPath = path.every((part) => /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/.test(part));
  if (isDomain && !/^[A-Za-z0-9.-]+(?::\d{1,5})?$/.test(first)) return { wrong: `has ${first} in the place of a host` };
  if (!isPath) {
    const small = written.replace(repository, repository.toLowerCase());
    const wrong = 'is no image: small letters, digits and "." "_" "-" between slashes, as in library/alpine:3';
    return small !== written && 'value' in readImage(small) ? { wrong, meant: small } : { wrong };
  }
  if (!/^(?::\w[\w.-]{0,127})?(?:@[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$/.test(rest)) {
    return { wrong: `has ${rest} in the place of a tag or digest` };
  }
  return { value: written };
}
