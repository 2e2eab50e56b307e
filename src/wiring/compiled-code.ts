// Compiled code: what the engine has made of the bundle's chunks, kept for the next run of the same command. Node's own cache
// (https://nodejs.org/api/module.html#module-compile-cache) takes a chunk as it is before anything of it has run: without the
// functions inside, which would be made anew each time, and are a seventh of a short command's time. Here a chunk is taken as it is
// when a command ends, with the functions that this command used and without the others, which are most of it.
//
// Chunks are loaded here too: they stand in one folder, and what each is called is known, so there is nothing to search for.
//
// All chunks of a command are in one file: a line that names them, and behind it what was made of each. It is read at once, and
// it may be lost at any time.

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { Script } from 'node:vm';

/** The first line of the file. */
interface Head {
  /** How many runs have put down what they used, since one that loaded something new. */
  readonly runs: number;
  /** The path of each chunk, and the length of what was made of it. */
  readonly chunks: readonly (readonly [path: string, length: number])[];
}

/** A chunk, as Node has modules. */
interface Loaded {
  exports: unknown;
}

/** What loads something the first time may do more than is usual, or less (`--dry-run`); after so many runs it is known what is used. */
const runsMost = 3;

/** The names of the arguments of the function that a chunk is the body of (https://nodejs.org/api/modules.html#the-module-wrapper). */
const around = ['(function (exports, require, module, __filename, __dirname) {', '\n})'] as const;

/**
 * From now on what ends in `.cjs`, as the bundle's chunks do, is loaded with what that file holds of it. It is to be the user's own:
 * who can write it decides what this user runs. `pid` is this process. `beforePackage` is called before each package that is no part
 * of the bundle.
 */
export function useCompiledCode(
  file: string,
  pid: number,
  beforePackage: () => void,
): {
  /** Puts down what this run has used, where that is not known yet. To be called at its end; throws nothing. */
  save(): void;
} {
  const { runs, kept } = readKept(file);
  const used = new Map<string, Script>();
  let isAnyNew = false;

  /** Node's own way, for what Node knows itself, and for what it has loaded before us. */
  const plain = createRequire('/');
  const loaded = new Map<string, Loaded>();

  function load(path: string): unknown {
    const known = loaded.get(path) ?? plain.cache[path];
    if (known !== undefined) return known.exports;
    const module: Loaded = { exports: {} };
    // Before it is run: two chunks may need each other.
    loaded.set(path, module);
    try {
      run(path, module);
    } catch (error) {
      loaded.delete(path);
      throw error;
    }
    return module.exports;
  }

  function run(path: string, module: Loaded): void {
    const cachedData = kept.get(path);
    const text = around.join(readFileSync(path, 'utf8'));
    const script = new Script(text, { filename: path, ...(cachedData === undefined ? {} : { cachedData }) });
    // The engine looks whether it is of an engine like itself, and of a text of this length: that it is of this very text is known by the
    // path, which has the hash of the chunk in it (tools/build.ts).
    isAnyNew ||= script.cachedDataRejected !== false;
    used.set(path, script);
    const body = script.runInThisContext() as (this: unknown, ...words: readonly unknown[]) => void;
    const folder = dirname(path);
    body.call(module.exports, module.exports, requireIn(folder), module, path, folder);
  }

  /** As Node's: it finds a chunk that stands beside without looking for it, which Node does with three questions to the disk. */
  function requireIn(folder: string): (name: string) => unknown {
    let whole: NodeJS.Require | undefined;
    const nodes = (): NodeJS.Require => {
      whole ??= createRequire(`${folder}/`);
      return whole;
    };
    const require = (name: string): unknown => {
      if (name.startsWith('node:')) return plain(name);
      if (name.startsWith('./') && name.endsWith('.cjs')) return load(`${folder}${name.slice(1)}`);
      beforePackage();
      return nodes()(name);
    };
    return Object.defineProperties(require, {
      main: { get: () => nodes().main },
      resolve: { get: () => nodes().resolve },
    });
  }

  // One table for all, wherever it is asked from.
  plain.extensions['.cjs'] = (module, path) => run(path, module);

  return {
    save() {
      if (!isAnyNew && runs >= runsMost) return;
      // The first chunk names all others, so it is another one in each build. Of the same build stays what this run had no use for.
      const [first = ''] = used.keys();
      const all = new Map(kept.has(first) ? kept : []);
      for (const [path, script] of used) all.set(path, script.createCachedData());
      const head: Head = {
        runs: isAnyNew ? 1 : runs + 1,
        chunks: [...all].map(([path, { length }]) => [path, length]),
      };
      // Another run of it may do the same just now: the last one stays.
      const fresh = `${file}.${pid}`;
      try {
        mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
        // On the disk before it has its name: the engine trusts what it is given, and would run what a power cut has left of it.
        writeFileSync(fresh, Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), ...all.values()]), {
          mode: 0o600,
          flush: true,
        });
        renameSync(fresh, file);
      } catch {
        // Without it the next run is only slower.
      }
    },
  };
}

/** Nothing of a file that is not there, or is not whole. */
function readKept(file: string): { readonly runs: number; readonly kept: ReadonlyMap<string, Buffer> } {
  const kept = new Map<string, Buffer>();
  try {
    const bytes = readFileSync(file);
    let at = bytes.indexOf('\n') + 1;
    const { runs, chunks } = JSON.parse(bytes.toString('utf8', 0, at)) as Head;
    for (const [path, length] of chunks) {
      kept.set(path, bytes.subarray(at, at + length));
      at += length;
    }
    if (at === bytes.length) return { runs, kept };
  } catch {
    // It is made anew.
  }
  return { runs: 0, kept: new Map() };
}
