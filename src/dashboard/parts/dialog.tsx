import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { escapeLine } from '../../app/format.ts';
import { useKeys } from '../keys.ts';

interface DialogProps {
  readonly title: string;
  /** Null: it cannot be closed. */
  readonly onClose: (() => void) | null;
  readonly children: ComponentChildren;
}

/** Covers the page, which cannot be used until the dialog is closed. Escape closes it. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  // No key of the page acts.
  useKeys([], []);
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onCancel={(event) => {
        if (onClose === null) event.preventDefault();
      }}
      onClose={() => {
        // A second Escape closes it in some browsers.
        if (onClose === null) element.current?.showModal();
        else onClose();
      }}
    >
      <header>
        <h2>{escapeLine(title)}</h2>
        {onClose !== null && (
          <button class="plain" aria-label="Close" onClick={onClose}>
            ×
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  /** The consequences, such as what is lost. */
  readonly lines: readonly string[];
  /** The label of the button that acts, such as `Stop 000042`. */
  readonly action: string;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** The focus begins on the button that changes nothing, so that Enter is safe. */
export function Confirm({ title, lines, action, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      {lines.map((line) => (
        <p key={line}>{escapeLine(line)}</p>
      ))}
      <footer>
        <button autofocus onClick={onClose}>
          Keep it as it is
        </button>
        <button class="danger" onClick={onConfirm}>
          {escapeLine(action)}
        </button>
      </footer>
    </Dialog>
  );
}
