"""Lost packets and slow links."""
