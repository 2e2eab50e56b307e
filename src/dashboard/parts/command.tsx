import { useSignal } from '@preact/signals';
import { escapeLine } from '../../app/format.ts';
import { useKeys } from '../keys.ts';

/** A command, or another text, to copy. */
export function Command({ text, what = 'command' }: { readonly text: string; readonly what?: string }) {
  const isCopied = useSignal(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    isCopied.value = true;
    setTimeout(() => (isCopied.value = false), 2000);
  };
  return (
    <span class="command">
      <code>{escapeLine(text)}</code>
      <button
        class="plain"
        onClick={() => void copy()}
        aria-label={`Copy the ${what}${what === 'command' ? ` ${text}` : ''}`}
      >
        {isCopied.value ? 'copied' : 'copy'}
      </button>
    </span>
  );
}

/** The command that shows the same as the page. The key `c` copies it. */
export function PageCommand({ text }: { readonly text: string }) {
  useKeys(
    [{ key: 'c', summary: 'Copy the command of this page', act: () => void navigator.clipboard.writeText(text) }],
    [text],
  );
  return <Command text={text} />;
}
