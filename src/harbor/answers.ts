// Answers: what Harbor says of a repository and of an artifact, as far as it is read.

import type { ImageArtifact } from '../app/images.ts';
import type { Form } from '../app/form.ts';
import type { Instant } from '../core/time.ts';

/** The fields of a Repository that jobman reads. Its name begins with the project. */
export interface RawRepository {
  readonly name: string;
  readonly description?: string | null;
  readonly artifact_count?: number;
  readonly pull_count?: number;
  readonly update_time?: string;
}

/** The fields of an Artifact that jobman reads. */
export interface RawArtifact {
  readonly digest: string;
  readonly size?: number;
  readonly push_time?: string;
  readonly pull_time?: string;
  /** Null where it has none. */
  readonly tags?: readonly { readonly name: string; readonly push_time?: string }[] | null;
  readonly extra_attrs?: { readonly architecture?: unknown; readonly os?: unknown } | null;
  /** Of an index: what it leads to. */
  readonly references?:
    | readonly { readonly platform?: { readonly architecture?: string; readonly os?: string } | null }[]
    | null;
}

/** The form of a Repository. */
export const repositoryForm: Form = {
  name: 'string',
  description: 'string',
  artifact_count: 'number',
  pull_count: 'number',
  update_time: 'string',
};
/** The form of an Artifact. */
export const artifactForm: Form = {
  digest: 'string',
  size: 'number',
  push_time: 'string',
  pull_time: 'string',
  tags: [{ name: 'string', push_time: 'string' }],
  extra_attrs: {},
  references: [{ platform: { architecture: 'string', os: 'string' } }],
};

/** The artifact, its newest tag first. */
export function readArtifact(raw: RawArtifact): ImageArtifact {
  const all = [...(raw.references ?? []).map(({ platform }) => platform), raw.extra_attrs];
  const platforms = all.flatMap((one) =>
    typeof one?.os === 'string' && typeof one.architecture === 'string' && one.os !== 'unknown' && one.os !== ''
      ? [`${one.os}/${one.architecture}`]
      : [],
  );
  const tags = (raw.tags ?? []).toSorted(
    (one, other) => (instantOf(other.push_time) ?? 0) - (instantOf(one.push_time) ?? 0),
  );
  return {
    digest: raw.digest,
    tags: tags.map(({ name }) => name),
    size: raw.size ?? null,
    platforms: [...new Set(platforms)],
    pushedAt: instantOf(raw.push_time),
    pulledAt: instantOf(raw.pull_time),
  };
}

/** Harbor says the year 1 for what never happened. */
export function instantOf(text: string | undefined): Instant | null {
  const at = Date.parse(text ?? '');
  return Number.isNaN(at) || at < 0 ? null : at;
}
