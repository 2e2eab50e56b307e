// The draft of a new job: its manifest, which this tab keeps, so that neither a reload nor the end of the session loses it.

import { signal } from '@preact/signals';
import type { UserName } from '../../core/model/user.ts';

export interface Draft {
  /** A draft is shown to no other user of this browser. */
  readonly user: UserName;
  readonly text: string;
  /** The job or the template that the draft began with. */
  readonly start: DraftStart;
  /** The idempotency key of the request that creates the job: another one for each text. */
  readonly key: string;
}

export interface DraftStart {
  /** Null for a template. */
  readonly job: string | null;
  readonly name: string;
  readonly text: string;
}

const storageKey = 'jobman-draft';

/** Of the last user who had one. */
export const draft = signal<Draft | null>(storedDraft(() => sessionStorage.getItem(storageKey)));

/** The draft of that user; of any user while none is known, as after the end of a session. */
export function draftOf(user: UserName | null): Draft | null {
  const { value } = draft;
  return user === null || value?.user === user ? value : null;
}

/** Begins a new draft, which replaces the previous one. */
export function startDraft(user: UserName, start: DraftStart): void {
  store({ user, text: start.text, start, key: newKey() });
}

export function changeDraft(text: string): void {
  const current = draft.peek();
  if (current !== null && current.text !== text) store({ ...current, text, key: newKey() });
}

export function removeDraft(): void {
  store(null);
}

export function isChanged({ text, start }: Draft): boolean {
  return text !== start.text;
}

function store(next: Draft | null): void {
  draft.value = next;
  try {
    if (next === null) sessionStorage.removeItem(storageKey);
    else sessionStorage.setItem(storageKey, JSON.stringify(next));
  } catch {
    // Storage is full or forbidden: the draft lasts until the page is closed.
  }
}

/** Null for everything else than a draft: another version of the page may have stored it. */
export function storedDraft(read: () => string | null): Draft | null {
  try {
    const { user, text, start, key } = JSON.parse(read() ?? '{}') as Partial<Draft>;
    const texts = [user, text, key, start?.name, start?.text, start?.job ?? ''];
    return texts.every((one) => typeof one === 'string') ? ({ user, text, start, key } as Draft) : null;
  } catch {
    return null;
  }
}

/** Without `randomUUID`, which a page has only over HTTPS and on this machine. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
