/** Reporter for knip: the number of analysed files, so that a wrong glob does not pass as a clean project. */
export default function report({ counters }: { readonly counters: { readonly processed: number } }): void {
  process.stdout.write(`knip looked at ${counters.processed} files\n`);
}
