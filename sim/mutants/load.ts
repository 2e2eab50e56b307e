// Mutants: deliberate mistakes that prove that an invariant can fail. Each is a patch of the source text, applied only
// to a copy of the modules. A block of a patch file is one mutant: its name, the number of the invariant that must find
// it and the mistake; then each file below `src` with the text to replace (`-`), which occurs there exactly once, and
// its replacement (`+`).

import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

export interface Mutant {
  readonly name: string;
  /** Number of the invariant that must find it. */
  readonly invariant: number;
  readonly description: string;
  readonly edits: readonly Edit[];
}

/** `find` must occur exactly once in that file below `src`. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** Mistakes in the rules, which a random walk of one job shows. */
export const ruleMutants = mutantsIn('rules.patch');

/** Also those that only a whole world shows. */
export const mutants: readonly Mutant[] = [...ruleMutants, ...mutantsIn('loop.patch')];

/** Throws for an unknown name. */
export function mutantNamed(name: string): Mutant {
  const found = mutants.find((one) => one.name === name);
  if (found === undefined)
    throw new Error(`there is no mutant ${name}; there are: ${mutants.map((one) => one.name).join(', ')}`);
  return found;
}

function mutantsIn(file: string): readonly Mutant[] {
  const [, ...blocks] = readFileSync(new URL(file, import.meta.url), 'utf8').split('\n\n');
  return blocks.map(mutantOf);
}

function mutantOf(block: string): Mutant {
  const [, name = '', invariant = '', description = '', patch = ''] =
    /^(\S+), (\d+): ([^\n]*)\n(.*)$/s.exec(`${block}\n`) ?? [];
  const edits = [...patch.matchAll(/^(\S+\.ts)\n((?:- .*\n)+)((?:\+ .*\n)*)/gm)].map(
    ([, file = '', find = '', replace = '']): Edit => ({
      file,
      find: withoutMarkers(find),
      replace: withoutMarkers(replace),
    }),
  );
  if (name === '' || edits.length === 0) throw new Error(`not a mutant: ${block}`);
  return { name, invariant: Number(invariant), description, edits };
}

function withoutMarkers(lines: string): string {
  return lines.replace(/^. /gm, '').replace(/\n$/, '');
}

// ------------------------------------------------------------------------------------------ loading

const source = new URL('../../src/', import.meta.url).href;
const repository = new URL('../../', import.meta.url).href;
const libraries = new URL('node_modules/', repository).href;

let hooksInstalled = false;

/** The copy of the module at that URL, with that mutant in all its imports. Throws if the patch does not apply. */
export async function importMutant(url: string, mutant: string): Promise<unknown> {
  mutantNamed(mutant);
  installHooks();
  return import(`${url}?mutant=${mutant}`);
}

/** Throws unless `find` occurs exactly once. */
export function edited(text: string, { file, find, replace }: Edit): string {
  const [before, after, ...more] = text.split(find);
  if (before === undefined || after === undefined || more.length > 0)
    throw new Error(`${file} must contain the text of a mutant exactly once: ${find}`);
  return before + replace + after;
}

function installHooks(): void {
  if (hooksInstalled) return;
  hooksInstalled = true;
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const mutant = mutantIn(context.parentURL ?? '');
      const isOurs = found.url.startsWith(repository) && !found.url.startsWith(libraries);
      return mutant === null || !isOurs || mutantIn(found.url) !== null
        ? found
        : { ...found, url: `${found.url}?mutant=${mutant}` };
    },
    load(url, context, next) {
      const loaded = next(url, context);
      const mutant = mutantIn(url);
      if (mutant === null || !url.startsWith(source)) return loaded;
      const file = fileURLToPath(url).slice(fileURLToPath(source).length);
      const edits = mutantNamed(mutant).edits.filter((one) => one.file === file);
      if (edits.length === 0) return loaded;
      const text =
        typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source ?? undefined);
      return { ...loaded, source: edits.reduce(edited, text) };
    },
  });
}

function mutantIn(url: string): string | null {
  return URL.canParse(url) ? new URL(url).searchParams.get('mutant') : null;
}
