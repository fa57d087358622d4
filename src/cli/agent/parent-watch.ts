/**
 * Ties the life of a node process to the process that started it: the parent holds the other end of stdin, and the
 * system closes it when the parent ends, however it ends. Never writes, and ignores whatever comes through.
 */

export function onParentExit(gone: () => void): void {
  const { stdin } = process;
  let told = false;
  const tell = (): void => {
    if (told) return;
    told = true;
    gone();
  };
  stdin.on('end', tell);
  stdin.on('close', tell);
  stdin.on('error', tell);
  stdin.resume();
}
