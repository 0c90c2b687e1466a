package runtime

// Homes returns how many keys the client keeps a home for.
func Homes(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.homes)
}
