// The words of a command line, put into the order in which they are read.

import { flagName, globalFlags, globalLetters, type Flag } from './entry.ts';
import { table } from './table.ts';

/**
 * Flags that stand before the command's word are put behind it, where the framework reads them; a happening in the
 * built-in cloud (`emulator preempt 1`) becomes the words of `emulator act`, because its flags are the cloud's own.
 */
export function arrange(argv: readonly string[]): readonly string[] {
  const before = leadingFlags(argv);
  const rest = withLettersApart(argv.slice(before.length));
  const words = wordsOfCommand(rest);
  const [group, verb] = rest;
  if (group === 'emulator' && words === 1 && verb !== undefined && !verb.startsWith('-')) {
    // Behind `--` the framework reads nothing, not even a wish for help.
    const wantsHelp = rest.includes('--help') || rest.includes('-h');
    return wantsHelp ? [group, 'act', '--help'] : [group, 'act', ...before, '--', ...rest.slice(1)];
  }
  return [...rest.slice(0, words), ...before, ...rest.slice(words)];
}

/** The command that these words begin with; undefined when it is none of the table. */
export function commandIn(argv: readonly string[]): string | undefined {
  const words = argv.slice(0, wordsOfCommand(argv)).join(' ');
  return table.find((entry) => entry.path === words || entry.alias === words)?.path;
}

/**
 * `-ci alpine` and `-n100` become `-c -i alpine` and `-n 100`. A word that is no row of this command's letters stays as it is,
 * as does the value of a flag before it, and everything behind `--`.
 */
function withLettersApart(argv: readonly string[]): readonly string[] {
  const command = argv.slice(0, wordsOfCommand(argv)).join(' ');
  const entry = table.find(({ path, alias }) => path === command || alias === command);
  if (entry === undefined) return argv;
  const letters: Readonly<Record<string, string>> = { ...globalLetters, ...entry.letters };
  const flags: Readonly<Record<string, Flag>> = { ...(globalFlags as Record<string, Flag>), ...entry.flags };
  const flagAt = (letter: string | undefined): Flag | undefined => flags[letters[letter ?? ''] ?? ''];
  const words: string[] = [];
  let isValue = false;
  for (const [index, word] of argv.entries()) {
    if (word === '--') return [...words, ...argv.slice(index)];
    const parts: readonly string[] =
      isValue || !/^-[A-Za-z]./.test(word) || flagAt(word[1]) === undefined ? [word] : apart(word, flagAt);
    words.push(...parts);
    const last = parts.at(-1) ?? '';
    const flag = /^-[A-Za-z]$/.test(last)
      ? flagAt(last[1])
      : Object.entries(flags).find(([name]) => flagName(name) === last)?.[1];
    isValue = !isValue && flag !== undefined && flag.kind !== 'boolean';
  }
  return words;
}

function apart(word: string, flagAt: (letter: string | undefined) => Flag | undefined): readonly string[] {
  const parts: string[] = [];
  for (const [index, letter] of word.slice(1).split('').entries()) {
    const flag = flagAt(letter);
    if (flag === undefined) return [word];
    parts.push(`-${letter}`);
    if (flag.kind === 'boolean') continue;
    const value = word.slice(index + 2);
    return value === '' ? parts : [...parts, value];
  }
  return parts;
}

function leadingFlags(argv: readonly string[]): readonly string[] {
  let count = 0;
  for (let at = 0; at < argv.length; at = count) {
    const word = argv[at] ?? '';
    const [name = ''] = word.replace(/^--?/, '').split('=');
    const letter = (globalLetters as Readonly<Record<string, string>>)[name];
    const flag = (globalFlags as Readonly<Record<string, Flag>>)[word.startsWith('--') ? name : (letter ?? '')];
    if (!word.startsWith('-') || flag === undefined) break;
    count += flag.kind === 'boolean' || word.includes('=') ? 1 : 2;
  }
  return argv.slice(0, count);
}

/** How many of the first words name a command of the table. */
function wordsOfCommand(argv: readonly string[]): number {
  const [first = '', second = ''] = argv;
  const both = `${first} ${second}`;
  if (table.some((entry) => entry.path === both)) return 2;
  return argv.length === 0 ? 0 : 1;
}
