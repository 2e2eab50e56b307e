// Values of a Kubernetes job that have one form on the command line and in a manifest. Each `problem` is a phrase that
// follows the value as written.

export type ParseResult<T> = { readonly value: T } | { readonly problem: string; readonly suggestion?: string };

/** A resource and its count: `2`, `1:NVIDIA-A100-SXM4-80GB`, `4:amd.com/gpu`. */
export interface GpuRequest {
  readonly count: number;
  /** Exact value of the node's label for its GPU model; null for any. */
  readonly model: string | null;
  /** An extended resource; null for the one that the settings or the flavor name. */
  readonly resource: string | null;
}

export interface VolumeRequest {
  readonly claim: string;
  readonly path: string;
  readonly readOnly: boolean;
}

/** A reference to a cluster's Secret: one key as a variable, or all keys under their own names. */
export type SecretReference =
  | { readonly secret: string; readonly key: string; readonly variable: string }
  | { readonly secret: string; readonly key: null };

/** A toleration in Kubernetes' fields. A null value matches any value, a null effect every effect. */
export interface Toleration {
  readonly key: string;
  readonly value: string | null;
  readonly effect: (typeof taintEffects)[number] | null;
}

/** https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/ */
const taintEffects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] as const;

/** RFC 1123, as Kubernetes checks names of most of its objects. */
const dnsLabel = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?';
const dnsSubdomain = new RegExp(`^${dnsLabel}(?:\\.${dnsLabel})*$`);

/** A Job's name is also a label's value and the prefix of its pods' names. */
const maxJobNameLength = 63;
const maxObjectNameLength = 253;

/** Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#writing-a-job-spec */
export function readJobName(written: string): ParseResult<string> {
  return readName(written, maxJobNameLength);
}

/** Name of any other object: a claim, a Secret, a namespace, a service account, a queue. */
export function readObjectName(written: string): ParseResult<string> {
  return readName(written, maxObjectNameLength);
}

function readName(written: string, maxLength: number): ParseResult<string> {
  if (dnsSubdomain.test(written) && written.length <= maxLength) return { value: written };
  const suggestion = written
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, '-')
    .replaceAll(/[.-]*\.[.-]*/g, '.')
    .slice(0, maxLength)
    .replace(/^[.-]+/, '')
    .replace(/[.-]+$/, '');
  const problem =
    written.length > maxLength && dnsSubdomain.test(written)
      ? `has ${written.length} characters; the limit of Kubernetes is ${maxLength}`
      : `is not a valid name in Kubernetes: at most ${maxLength} lower-case letters, digits, "-" and ".", with a letter or digit at both ends`;
  return suggestion === '' || suggestion === written ? { problem } : { problem, suggestion };
}

/** `n[:model]` or `n:resource`. A resource has a slash; a model cannot have one. */
export function readGpus(written: string): ParseResult<GpuRequest> {
  const [, count = '', rest] = /^(\d{1,4})(?::(.+))?$/.exec(written.trim()) ?? [];
  if (Number(count) < 1) return { problem: 'is not a number of GPUs: write 1, 2:MODEL or 4:amd.com/gpu' };
  if (rest === undefined) return { value: { count: Number(count), model: null, resource: null } };
  if (rest.includes('/')) {
    if (!isQualifiedName(rest)) return { problem: `has the resource ${rest}, which is not a valid name` };
    return { value: { count: Number(count), model: null, resource: rest } };
  }
  if (!isLabelValue(rest)) return { problem: `has the model ${rest}, which is not a valid label value` };
  return { value: { count: Number(count), model: rest, resource: null } };
}

export function readVolume(written: string): ParseResult<VolumeRequest> {
  const [claim = '', path = '', mode, ...more] = written.trim().split(':');
  if (more.length > 0 || path === '' || !(mode === undefined || mode === 'ro' || mode === 'rw')) {
    return { problem: 'is not a volume: write claim:/path or claim:/path:ro' };
  }
  const name = readObjectName(claim);
  if ('problem' in name) return { problem: `has the claim "${claim}", which ${name.problem}` };
  if (!path.startsWith('/')) return { problem: `has the path ${path}, which must begin with a slash` };
  return { value: { claim, path, readOnly: mode === 'ro' } };
}

/** `NAME:KEY=VARIABLE`. `NAME:KEY` is the variable KEY; `NAME` is all keys under their own names. */
export function readSecret(written: string): ParseResult<SecretReference> {
  const [, secret = '', key, variable = key] = /^([^:=]+)(?::([^:=]+)(?:=(.+))?)?$/.exec(written.trim()) ?? [];
  if (secret === '') return { problem: 'is not a reference to a Secret: write NAME:KEY=VARIABLE, NAME:KEY or NAME' };
  const name = readObjectName(secret);
  if ('problem' in name) return { problem: `has the Secret "${secret}", which ${name.problem}` };
  if (key === undefined || variable === undefined) return { value: { secret, key: null } };
  // https://kubernetes.io/docs/concepts/configuration/secret/#restriction-names-data
  if (!/^[A-Za-z0-9._-]{1,253}$/.test(key))
    return { problem: `has the key "${key}", which is not a valid key of a Secret` };
  if (!isVariableName(variable)) return { problem: `has the variable "${variable}", which is not a valid name` };
  return { value: { secret, key, variable } };
}

export function readLabel(written: string): ParseResult<readonly [key: string, value: string]> {
  const [, key = '', value] = /^([^=]*)=(.*)$/s.exec(written) ?? [];
  if (value === undefined) return { problem: 'is not a label: write KEY=VALUE' };
  if (!isQualifiedName(key))
    return { problem: `has the key "${key}", which is not valid: letters, digits, "-", "_", "."` };
  if (!isLabelValue(value)) {
    return { problem: `has the value "${value}", which is not valid: at most 63 letters, digits, "-", "_", "."` };
  }
  return { value: [key, value] };
}

/** `KEY` or `KEY=VALUE`, optionally with `:EFFECT`, in the notation of `kubectl taint`. */
export function readToleration(written: string): ParseResult<Toleration> {
  const [, key = '', value = null, effect = null] = /^([^=:]*)(?:=([^:]*))?(?::(.*))?$/s.exec(written) ?? [];
  if (!isQualifiedName(key)) return { problem: 'is not a toleration: write KEY, KEY=VALUE or KEY=VALUE:NoSchedule' };
  if (value !== null && !isLabelValue(value))
    return { problem: `has the value "${value}", which is not valid for a taint` };
  const known = taintEffects.find((one) => one === effect);
  if (effect !== null && known === undefined) {
    return { problem: `has the effect "${effect}"; the effects are ${taintEffects.join(', ')}` };
  }
  return { value: { key, value, effect: known ?? null } };
}

/** A Kubernetes quantity: `1`, `500m`, `1.5Gi`, `2e3`. app/cluster/quantity.ts computes its value. */
export const quantityPattern = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,3})?$/;

export function isVariableName(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_.-]{0,252}$/.test(text);
}

export function isLabelValue(text: string): boolean {
  return text.length <= 63 && /^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?$/.test(text);
}

/** Key of a label or annotation, or name of a resource: `[domain/]name`. */
export function isQualifiedName(text: string): boolean {
  const [, prefix, name = ''] = /^(?:([^/]*)\/)?([^/]*)$/.exec(text) ?? [];
  const isPrefix = prefix === undefined || (prefix.length <= 253 && dnsSubdomain.test(prefix));
  return isPrefix && name !== '' && isLabelValue(name);
}

/** An image reference: no spaces, and capitals only in the tag. Only the registry knows whether the image exists. */
export function readImage(written: string): ParseResult<string> {
  const [, repository = '', rest = ''] = /^(.*?)((?::[^/:@]*)?(?:@[^@]*)?)$/.exec(written) ?? [];
  // https://github.com/distribution/reference
  const [first = '', ...parts] = repository.split('/');
  const isDomain = parts.length > 0 && (/[.:]/.test(first) || first === 'localhost' || /[A-Z]/.test(first));
  const path = isDomain ? parts : [first, ...parts];
  const isPath = path.every((part) => /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/.test(part));
  if (isDomain && !/^[A-Za-z0-9.-]+(?::\d{1,5})?$/.test(first))
    return { problem: `has the registry ${first}, which is not a valid host` };
  if (!isPath) {
    const lowerCase = written.replace(repository, repository.toLowerCase());
    const problem =
      'is not an image: write lower-case letters, digits and "." "_" "-" between slashes, as in library/alpine:3';
    return lowerCase !== written && 'value' in readImage(lowerCase) ? { problem, suggestion: lowerCase } : { problem };
  }
  if (!/^(?::\w[\w.-]{0,127})?(?:@[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$/.test(rest)) {
    return { problem: `has ${rest}, which is not a valid tag or digest` };
  }
  return { value: written };
}
