// The four states without content: nothing exists, filters hide everything, the server does not answer, and no permission.

import type { ComponentChildren } from 'preact';
import { escapeLine } from '../../app/format.ts';
import { Command } from './command.tsx';

interface FailureProps {
  /** The message of the error, then its hints. */
  readonly lines: readonly string[];
  readonly retry: (() => void) | null;
}

export function Failure({ lines: [message = '', ...hints], retry }: FailureProps) {
  return (
    <section class="message failure" role="alert">
      <p>{escapeLine(message)}</p>
      {hints.map((hint) => (
        <p key={hint} class="quiet">
          {escapeLine(hint)}
        </p>
      ))}
      {retry !== null && <button onClick={retry}>Try again</button>}
    </section>
  );
}

/** Nothing exists yet. `command`: what creates it. */
export function Empty({ children, command }: { readonly children: ComponentChildren; readonly command?: string }) {
  return (
    <section class="message">
      <p>{children}</p>
      {command !== undefined && <Command text={command} />}
    </section>
  );
}

/** Filters hide everything. */
export function FilteredOut({
  children,
  onClear,
}: {
  readonly children: ComponentChildren;
  readonly onClear: () => void;
}) {
  return (
    <section class="message">
      <p>{children}</p>
      <button onClick={onClear}>Clear the filters</button>
    </section>
  );
}
