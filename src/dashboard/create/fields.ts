// The fields of the form: the keys that most manifests use, each with the control that fits its JSON Schema.

import type { Document } from 'yaml';
import { hasKey, valueAt, type WrittenValue } from '../../manifest/edit.ts';
import { aliasesAt, siblingKeys } from '../../manifest/keys.ts';
import { formatDefault, type Key, type Path, type Schema } from '../../schema/kinds.ts';
import { formatPath } from '../../schema/problems.ts';

/** The control of a key. A `list` has its items in one line, with commas between them. */
type Control =
  | { readonly kind: 'choice'; readonly options: readonly string[] }
  | { readonly kind: 'script' }
  | { readonly kind: 'list' }
  | { readonly kind: 'text'; readonly examples: readonly string[] };

export interface Field {
  readonly path: Path;
  /** `tpu.zone`. */
  readonly name: string;
  /** The same with the other names of the key, which a problem may have. */
  readonly names: readonly string[];
  readonly help: string;
  readonly isRequired: boolean;
  /** The default as a phrase; null for a required key. */
  readonly defaultText: string | null;
  readonly control: Control;
}

export interface FieldGroup {
  readonly title: string;
  readonly fields: readonly Field[];
}

/** With the required keys first. */
const groups: readonly (readonly [title: string, names: readonly string[]])[] = [
  ['TPU', ['tpu.accelerator', 'tpu.zone', 'tpu.project', 'tpu.pricing', 'tpu.allocation_mode']],
  ['Your own machines', ['hosts']],
  ['Machine of the controller', ['local.workdir']],
  ['Command', ['command.run']],
  ['Job', ['job.name', 'job.tags', 'job.checkpoint_dir', 'job.max_runtime', 'job.silence_timeout', 'job.budget']],
  ['Setup', ['gcsfuse.bucket_name', 'gcsfuse.mount_path', 'job.env_type', 'docker.image']],
  ['After an end', ['recovery', 'job.hold_on_failure', 'job.on_finish']],
];

/** A manifest has one of these sections, and the form shows the keys of that one. It has none of a cluster. */
const capacitySections = ['tpu', 'hosts', 'local', 'kubernetes'];

/** The groups of a manifest. One without a capacity gets the fields of a TPU. */
export function fieldGroups(document: Document): readonly FieldGroup[] {
  const capacity = capacitySections.find((name) => hasKey(document, [name])) ?? 'tpu';
  return groups
    .map(([title, names]) => ({
      title,
      fields: names.flatMap((name) => {
        const [section = ''] = name.split('.');
        if (capacitySections.includes(section) && section !== capacity) return [];
        const isUsed = section === capacity || section === 'command' || hasKey(document, [section]);
        return [fieldOf(pathOf(document, name), isUsed)];
      }),
    }))
    .filter(({ fields }) => fields.length > 0);
}

/** `recovery` is the name of a preset, or a section with it. */
function pathOf(document: Document, name: string): Path {
  const path = name.split('.');
  return name === 'recovery' && valueAt(document, path).kind === 'other' ? ['recovery', 'preset'] : path;
}

/** An unused section has no required keys. */
function fieldOf(path: Path, isUsed: boolean): Field {
  const name = formatPath(path);
  const key = siblingKeys(path)?.[String(path.at(-1))];
  if (key === undefined) throw new Error(`no key ${name}`);
  return {
    path,
    name,
    names: [name, ...aliasesAt(path).map((alias) => formatPath([...path.slice(0, -1), alias]))],
    help: key.description,
    isRequired: key.isRequired === true && isUsed,
    defaultText: key.isRequired === true ? null : formatDefault(key),
    control: controlOf(key),
  };
}

function controlOf({ kind }: Key<unknown>): Control {
  if (kind.isScript === true) return { kind: 'script' };
  const schemas = flat(kind.schema ?? {});
  const options = schemas.flatMap(({ enum: values }) => (Array.isArray(values) ? values.map(String) : []));
  if (options.length > 0) return { kind: 'choice', options };
  if (schemas.some(({ items }) => items !== undefined)) return { kind: 'list' };
  return {
    kind: 'text',
    examples: schemas.flatMap(({ examples }) => (Array.isArray(examples) ? examples.map(String) : [])),
  };
}

/** The items of a list in one line. */
export function itemsOf(line: string): readonly string[] {
  return line
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** The value as the text of its control; null if the control would change it, such as an item with a comma. */
export function controlText(value: WrittenValue): string | null {
  if (value.kind === 'absent') return '';
  if (value.kind === 'single') return value.text;
  if (value.kind === 'other') return null;
  const line = value.items.join(', ');
  return JSON.stringify(itemsOf(line)) === JSON.stringify(value.items) ? line : null;
}

/** The alternatives of a schema. */
function flat(schema: Schema): readonly Schema[] {
  const { anyOf } = schema;
  return Array.isArray(anyOf) ? (anyOf as readonly Schema[]).flatMap(flat) : [schema];
}
