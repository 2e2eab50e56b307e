// Keys: one table of what each key does now. No key acts in a field, or with Ctrl, Alt or Meta. A switch turns them off.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { readChoice, storeChoice } from './choices.ts';

export interface KeyAction {
  /** As `KeyboardEvent.key`. Two with a space between them are pressed one after the other: `g j`. */
  readonly key: string;
  readonly summary: string;
  readonly act: () => void;
}

export const keysEnabled = signal(readChoice('keys') !== 'off');
/** The newest group first: a page comes before the frame around it, and a dialog before its page. */
const groups: (readonly KeyAction[])[] = [];
/** The actions of all groups, in their order. */
export const keyTable = signal<readonly KeyAction[]>([]);

export function enableKeys(enabled: boolean): void {
  keysEnabled.value = enabled;
  storeChoice('keys', enabled ? 'on' : 'off');
}

/** The keys act while the component is shown. */
export function useKeys(actions: readonly KeyAction[], dependencies: readonly unknown[]): void {
  useEffect(() => {
    groups.unshift(actions);
    keyTable.value = firstOfEachKey();
    return () => {
      groups.splice(groups.indexOf(actions), 1);
      keyTable.value = firstOfEachKey();
    };
  }, dependencies);
}

/** Two tables of a page have the same keys. */
function firstOfEachKey(): readonly KeyAction[] {
  const all = new Map(
    groups
      .flat()
      .toReversed()
      .map((action) => [action.key, action]),
  );
  return [...all.values()].toReversed();
}

const prefixTime = 1500;

export function listenForKeys(): void {
  let prefix = '';
  let prefixAt = 0;
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || isField(event.target)) return;
    if (!keysEnabled.peek() && event.key.length === 1) return;
    const typed = performance.now() - prefixAt < prefixTime && prefix !== '' ? `${prefix} ${event.key}` : event.key;
    prefix = '';
    // Each dialog has its own keys; the page below it has none.
    const open = document.querySelector('dialog[open]');
    const actions = open === null ? keyTable.peek() : (groups[0] ?? []);
    const found = actions.find(({ key }) => key === typed);
    if (found !== undefined) {
      event.preventDefault();
      found.act();
    } else if (actions.some(({ key }) => key.startsWith(`${event.key} `))) {
      prefix = event.key;
      prefixAt = performance.now();
    }
  });
}

function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches('input:not([type=checkbox]), textarea, select');
}
