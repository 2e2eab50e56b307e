// The words of a command line, put into the order in which they are read.

import { flagName, globalFlags, globalLetters, isNamed, type Flag } from './entry.ts';
import { table } from './table.ts';

/**
 * Flags before the command's word are put behind it, where the framework reads them. A verb of the emulator
 * (`emulator preempt 1`) becomes the words of `emulator act`: its options are the emulator's own, the flags of every
 * command are ours.
 */
export function arrange(argv: readonly string[]): readonly string[] {
  const before = leadingFlags(argv);
  const rest = withLettersApart(argv.slice(before.length));
  const words = wordsOfCommand(rest);
  const [group, verb] = rest;
  if (group === 'emulator' && words === 1 && verb !== undefined && !verb.startsWith('-')) {
    // Behind `--` the framework reads nothing, not even a wish for help.
    const wantsHelp = rest.includes('--help') || rest.includes('-h');
    if (wantsHelp) return [group, 'act', '--help'];
    const [flags, others] = globalFlagsApart(rest.slice(1));
    return [group, 'act', ...before, ...flags, '--', ...others];
  }
  return [...rest.slice(0, words), ...before, ...rest.slice(words)];
}

/** The command that these words begin with; undefined when it is none of the table. */
export function commandIn(argv: readonly string[]): string | undefined {
  const words = argv.slice(0, wordsOfCommand(argv)).join(' ');
  return table.find((entry) => isNamed(entry, words))?.path;
}

/**
 * `-ci alpine` and `-n100` become `-c -i alpine` and `-n 100`. A word that is no row of this command's letters stays as it is,
 * as does the value of a flag before it, and everything behind `--`.
 */
function withLettersApart(argv: readonly string[]): readonly string[] {
  const command = argv.slice(0, wordsOfCommand(argv)).join(' ');
  const entry = table.find((one) => isNamed(one, command));
  if (entry === undefined) return argv;
  const letters: Readonly<Record<string, string>> = { ...globalLetters, ...entry.letters };
  const flags: Readonly<Record<string, Flag>> = { ...(globalFlags as Record<string, Flag>), ...entry.flags };
  const flagAt = (letter: string | undefined): Flag | undefined => flags[letters[letter ?? ''] ?? ''];
  const words: string[] = [];
  let isValue = false;
  for (const [index, word] of argv.entries()) {
    if (word === '--') return [...words, ...argv.slice(index)];
    // As in kubectl, though -i is the image here: no image is called `t`.
    if (command === 'submit' && !isValue && (word === '-it' || word === '-ti')) {
      words.push('--tty');
      continue;
    }
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
  for (let length = -1; length !== 0; count += length) length = globalFlagLength(argv[count] ?? '');
  return argv.slice(0, count);
}

/** The flags of every command, and all other words. */
function globalFlagsApart(argv: readonly string[]): readonly [flags: readonly string[], others: readonly string[]] {
  const flags: string[] = [];
  const others: string[] = [];
  for (let at = 0; at < argv.length;) {
    const length = globalFlagLength(argv[at] ?? '');
    (length > 0 ? flags : others).push(...argv.slice(at, at + Math.max(1, length)));
    at += Math.max(1, length);
  }
  return [flags, others];
}

/** How many words a flag of every command takes, with its value; 0 for any other word. */
function globalFlagLength(word: string): number {
  const [name = ''] = word.replace(/^--?/, '').split('=');
  const letter = (globalLetters as Readonly<Record<string, string>>)[name];
  const flag = (globalFlags as Readonly<Record<string, Flag>>)[word.startsWith('--') ? name : (letter ?? '')];
  if (!word.startsWith('-') || flag === undefined) return 0;
  return flag.kind === 'boolean' || word.includes('=') ? 1 : 2;
}

/** How many of the first words name a command of the table. */
function wordsOfCommand(argv: readonly string[]): number {
  const [first = '', second = ''] = argv;
  const both = `${first} ${second}`;
  if (table.some((entry) => entry.path === both)) return 2;
  return argv.length === 0 ? 0 : 1;
}
