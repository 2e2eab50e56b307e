// Load: modules of this repository with one mutant in them, beside the same modules without it.
// A module that is imported with `?mutant=NAME`, and all that it imports, are copies of their own, patched as they are read.

import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { mutantNamed } from './list.ts';
import type { Edit } from './list.ts';

const source = new URL('../../src/', import.meta.url).href;
const repository = new URL('../../', import.meta.url).href;
const libraries = new URL('node_modules/', repository).href;

let areHooksThere = false;

/** The copy of the module at that URL with that mutant in all that it imports. Throws when the mutant does not fit the text. */
export async function importMutant(url: string, mutant: string): Promise<unknown> {
  mutantNamed(mutant);
  addHooks();
  return import(`${url}?mutant=${mutant}`);
}

/** The text with that edit. Throws unless the edit finds its place exactly once. */
export function edited(text: string, { file, find, replace }: Edit): string {
  const [before, after, ...more] = text.split(find);
  if (before === undefined || after === undefined || more.length > 0)
    throw new Error(`${file} does not contain this text exactly once, which a mutant replaces: ${find}`);
  return before + replace + after;
}

function addHooks(): void {
  if (areHooksThere) return;
  areHooksThere = true;
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const mutant = mutantOf(context.parentURL ?? '');
      const isOurs = found.url.startsWith(repository) && !found.url.startsWith(libraries);
      return mutant === null || !isOurs || mutantOf(found.url) !== null
        ? found
        : { ...found, url: `${found.url}?mutant=${mutant}` };
    },
    load(url, context, next) {
      const loaded = next(url, context);
      const mutant = mutantOf(url);
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

function mutantOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).searchParams.get('mutant') : null;
}
