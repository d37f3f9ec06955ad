"""What all HTTP ports share: access control, security headers, and how they listen."""
